#!/bin/sh
# Installs node_modules from the lock file and leaves a stamp: install.sh <stamp>
set -eu
stamp=$1

say() { printf 'csimux: %s\n' "$*" >&2; }

for tool in node npm; do
  command -v "$tool" >/dev/null 2>&1 || { say "$tool is missing; install Node 20 or newer with npm"; exit 1; }
done
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 20 ] || { say "Node $(node --version) is too old; version 20 or newer is needed"; exit 1; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing packages (npm ci)"
if ! npm ci --no-audit --no-fund --loglevel=error >"$log" 2>&1; then
  grep -v "^npm error *$" "$log" | head -n 12 >&2
  say "npm ci failed; offline, it needs a registry mirror or a filled npm cache (npm ci --prefer-offline)"
  exit 1
fi

# Where install scripts are switched off, bun's package holds a placeholder until its own installer has run.
if ! node_modules/.bin/bun --version >/dev/null 2>&1; then
  say "install scripts are off here; running bun's own installer"
  node node_modules/bun/install.js || { say "bun could not be installed (its binary is the npm package @oven/bun-*)"; exit 1; }
fi
node_modules/.bin/bun --version >/dev/null
touch "$stamp"
