"""The table of commands: code, request, operation of R3. See docs/protocols/iggy.md#commands."""

from dataclasses import dataclass
from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.requests import IggyRequest
from logdrive.wire.iggy.revision import Revision

REGISTER: Final = 1
"""R3's operation of both logins."""
NON_REPLICATED: Final = 2
"""R3's operation of a request that tells its command by its code."""
LOGOUT: Final = 3


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its *code*, its *request*, R3's *operation*, and the revisions that have it.

    R3 sends no code where the operation tells the command.
    """

    code: int
    request: type[IggyRequest]
    operation: int = NON_REPLICATED
    first: Revision = Revision.R0
    last: Revision = Revision.R3

    def known_in(self, revision: Revision) -> bool:
        """Whether the revision has the command."""
        return self.first <= revision <= self.last


_R1: Final = Revision.R1
COMMANDS: Final = (
    Command(1, requests.Ping),
    Command(10, requests.GetStats),
    Command(11, requests.GetSnapshot, first=_R1),
    Command(12, requests.GetClusterMetadata, first=_R1),
    Command(13, requests.DescribeOptions, first=Revision.R3),
    Command(20, requests.GetMe),
    Command(21, requests.GetClient),
    Command(22, requests.GetClients),
    Command(31, requests.GetUser, first=_R1),
    Command(32, requests.GetUsers, first=_R1),
    Command(33, requests.CreateUser, 141, first=_R1),
    Command(34, requests.DeleteUser, 143, first=_R1),
    Command(35, requests.UpdateUser, 142, first=_R1),
    Command(36, requests.UpdatePermissions, 145, first=_R1),
    Command(37, requests.ChangePassword, 144, first=_R1),
    Command(38, requests.IggyLogin, REGISTER, first=Revision.R0B),
    Command(39, requests.Logout, LOGOUT, first=_R1),
    Command(41, requests.GetTokens, first=_R1),
    Command(42, requests.CreateToken, 146, first=_R1),
    Command(43, requests.DeleteToken, 147, first=_R1),
    Command(44, requests.LoginWithToken, REGISTER, first=_R1),
    Command(100, requests.PollMessages),
    Command(101, requests.SendMessages, 160),
    Command(102, requests.FlushPartition, first=_R1),
    Command(120, requests.GetConsumerOffset),
    Command(121, requests.StoreConsumerOffset, 161),
    Command(122, requests.DeleteConsumerOffset, 162, first=_R1),
    Command(200, requests.GetStream),
    Command(201, requests.GetStreams),
    Command(202, requests.IggyCreateStream, 128),
    Command(203, requests.DeleteStream, 130),
    Command(204, requests.UpdateStream, 129, first=_R1),
    Command(205, requests.PurgeStream, 131, first=_R1),
    Command(300, requests.GetTopic),
    Command(301, requests.GetTopics),
    Command(302, requests.CreateTopic, 132),
    Command(303, requests.DeleteTopic, 134),
    Command(304, requests.UpdateTopic, 133, first=_R1),
    Command(305, requests.PurgeTopic, 135, first=_R1),
    Command(402, requests.CreatePartitions, 136),
    Command(403, requests.DeletePartitions, 137),
    Command(503, requests.DeleteSegments, 138, first=Revision.R2A),
    Command(600, requests.GetGroup),
    Command(601, requests.GetGroups),
    Command(602, requests.CreateGroup, 139),
    Command(603, requests.DeleteGroup, 140),
    Command(604, requests.JoinGroup, 148),
    Command(605, requests.LeaveGroup, 149),
    Command(606, requests.SyncGroup, first=Revision.R3),
)
COMMAND_BY_CODE: Final = {command.code: command for command in COMMANDS}
COMMAND_BY_REQUEST: Final = {command.request: command for command in COMMANDS}
COMMAND_BY_OPERATION: Final = {
    command.operation: command
    for command in COMMANDS
    if command.operation not in {REGISTER, NON_REPLICATED}
}
"""The commands which R3 tells by an operation of their own."""
