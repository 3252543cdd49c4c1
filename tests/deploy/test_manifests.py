"""The manifests name keys, files and users that the agent and its image have."""

from pathlib import Path
from typing import Any

import yaml

from agent.config.config import AgentConfig
from logdrive.config.load import load_config

DEPLOY = Path(__file__).parents[2] / "deploy"


def sidecar() -> dict[str, Any]:
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "sidecar.yaml").read_text())
    (container,) = pod["spec"]["initContainers"]
    spec: dict[str, Any] = pod["spec"] | {"sidecar": container}
    return spec


def test_the_variables_of_the_sidecar_are_a_configuration() -> None:
    variables = {
        variable["name"]: variable.get("value", "from-the-pod")
        for variable in sidecar()["sidecar"]["env"]
    }
    config = load_config(str(DEPLOY / "container" / "agent.toml"), AgentConfig, variables)
    assert config.agent.id == "from-the-pod"
    assert config.input[0].fields == {"service": "shop"}


def test_the_sidecar_mounts_what_the_configuration_of_the_image_names() -> None:
    mounts = [mount["mountPath"] for mount in sidecar()["sidecar"]["volumeMounts"]]
    variables = {"LOGDRIVE_AGENT__ID": "pod", "LOGDRIVE_OUTPUT__HOSTS": "receiver"}
    config = load_config(str(DEPLOY / "container" / "agent.toml"), AgentConfig, variables)
    assert config.output.tls != "off"
    files = [config.agent.state_dir, *config.input[0].paths]
    files += [path for path in (config.output.tls.ca, config.output.tls.cert) if path]
    assert [file for file in files if not any(file.startswith(mount) for mount in mounts)] == []


def test_the_agent_in_the_pod_may_read_what_the_application_writes() -> None:
    user = (DEPLOY / "container" / "Containerfile").read_text().split("USER ")[1].split(":")[0]
    assert sidecar()["securityContext"]["fsGroup"] == int(user)
