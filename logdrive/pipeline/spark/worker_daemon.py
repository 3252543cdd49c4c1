"""The process that Spark's Python workers are forked from: what tasks import is imported here once.

Without it each worker imports pyarrow and the decoder by itself, for more than a CPU second. What
is there before the fork is also kept from the garbage collector, which a worker runs in full after
each task.
"""

import gc
import os

# no pools of threads: a forked process has only the thread that forked
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pyspark.daemon
import pyspark.worker

import logdrive.pipeline.range_task
import logdrive.pipeline.spark.tasks  # noqa: F401
from logdrive.host.heap import settle_heap

if __name__ == "__main__":
    # texts of a row group are freed together, and the next one takes as much
    gc.collect()
    settle_heap()
    pyspark.daemon.manager()
