"""What `logdrive pipeline run` and `backfill` are asked to do, from a configuration or options."""

import os
from typing import TYPE_CHECKING

import click

from logdrive.cli.access import AccessOptions
from logdrive.config.load import load_config

if TYPE_CHECKING:
    from logdrive.pipeline.plan import Plan
    from logdrive.pipeline.read.start import Start


def parse_start_option(option: str, text: str | None) -> "Start | None":
    """Return the time or age *text*, None if none was given. Raises `BadParameter`."""
    from logdrive.pipeline.read.start import parse_start

    try:
        return None if text is None else parse_start(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint=option) from error


def plan_from_config(path: str, once: bool, master: str | None) -> "Plan":
    """Return what the configuration at *path* asks for.

    Raises `ConfigError`, and `PackagesMissingError` if it names a master and pyspark is missing.
    """
    from logdrive.pipeline.config import PipelineConfig
    from logdrive.pipeline.plan import Plan
    from logdrive.pipeline.read.start import parse_start
    from logdrive.pipeline.spark.session import require_spark

    config = load_config(path, PipelineConfig, os.environ)
    if config.spark.master:
        require_spark(f"spark.master in {path}")
    return Plan(
        uri=config.pipeline.source,
        directory=config.pipeline.target,
        start=parse_start(config.pipeline.start) if config.pipeline.start else None,
        once=once,
        max_bytes_per_batch=config.pipeline.max_bytes_per_batch,
        trigger_seconds=config.pipeline.trigger_seconds,
        compression=config.pipeline.compression,
        forms=config.tables.forms,
        master=master or config.spark.master,
        memory=config.spark.memory,
        driver_bytes=config.spark.driver_bytes,
        local_reads=config.pipeline.local_reads,
        metrics=config.metrics.address if config.metrics else "",
        reader=config.pipeline.reader,
        token=config.pipeline.token or "",
        tls=config.tls.settings() if config.tls else None,
        login=config.login.login if config.login else None,
    )


def plan_from_options(
    source: str | None, target: str | None, once: bool, master: str | None, access: AccessOptions
) -> "Plan":
    """Return what the options ask for. Raises `UsageError` if there is no stream or directory."""
    from logdrive.pipeline.plan import Plan

    if source is None or target is None:
        raise click.UsageError("give --from URI and --to DIR, or --config FILE")
    return Plan(
        uri=source, directory=target, once=once, master=master, tls=access.tls, login=access.login
    )
