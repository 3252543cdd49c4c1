"""All deliberate bugs."""

from tests.simulation.bugs.agent import AGENT
from tests.simulation.bugs.bounds import BOUNDS
from tests.simulation.bugs.connections import CONNECTIONS
from tests.simulation.bugs.copies import COPIES
from tests.simulation.bugs.disk_calls import DISK_CALLS
from tests.simulation.bugs.holdings import HOLDINGS
from tests.simulation.bugs.iggy import IGGY
from tests.simulation.bugs.packs import PACKS
from tests.simulation.bugs.peers import PEERS
from tests.simulation.bugs.pipeline import PIPELINE
from tests.simulation.bugs.processors import PROCESSORS
from tests.simulation.bugs.receiver import RECEIVER
from tests.simulation.bugs.s2 import S2
from tests.simulation.bugs.sink import SINK
from tests.simulation.bugs.store import STORE
from tests.simulation.bugs.streams import STREAMS
from tests.simulation.bugs.times import TIMES

MUTANTS = (
    *STORE,
    *STREAMS,
    *TIMES,
    *RECEIVER,
    *SINK,
    *S2,
    *IGGY,
    *AGENT,
    *COPIES,
    *PIPELINE,
    *PROCESSORS,
    *PACKS,
    *DISK_CALLS,
    *PEERS,
    *HOLDINGS,
    *CONNECTIONS,
    *BOUNDS,
)
