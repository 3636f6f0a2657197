#!/bin/sh
# Checks 2,000 texts made under 1,000 random schemas with the jsonschema package, in an environment of its own. Where the
# package is missing the test fails instead of being skipped.
set -eu
cd "$(dirname "$0")/.."
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet jsonschema
PYTHON="$environment/bin/python" NEED_JSONSCHEMA=1 cargo test --test schemas -- --nocapture
