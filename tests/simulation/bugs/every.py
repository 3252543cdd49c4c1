"""All deliberate bugs."""

from tests.simulation.bugs.agent import AGENT
from tests.simulation.bugs.pipeline import PIPELINE
from tests.simulation.bugs.receiver import RECEIVER
from tests.simulation.bugs.sink import SINK
from tests.simulation.bugs.store import STORE
from tests.simulation.bugs.streams import STREAMS

MUTANTS = (*STORE, *STREAMS, *RECEIVER, *SINK, *AGENT, *PIPELINE)
