/**
 * kopia(1) as far as csimux calls it, on a repository that is a folder (FAKE_KOPIA): one folder for each snapshot, and its manifest, a
 * line of JSON. It takes commands of a connected configuration only, and only the token "good token". KOPIA_FAULT: "torn" makes
 * snapshots of which a part could not be read, and "ignored", too, which the policy of all folders ignores; with "squashed" a restore may
 * not set owners, as root on an export that squashes it. It is a shell, which starts ten times as fast as bun, because a test calls it hundreds of
 * times. A restore keeps modes, owners and times (kopia snapshot restore --help: --[no-]skip-owners, -permissions, -times). Without a
 * policy for its folder or the one above, a snapshot lacks caches and what .kopiaignore names, also as a link (fs/ignorefs/ignorefs.go), and
 * all but the ten latest ones of a folder are deleted (snapshot/policy/expire.go; the policy for hours and days is left out here). Unless it
 * was connected with --max-list-cache-duration=0s, it does not list again what it has listed, until it changes something itself (kopia:
 * internal/listcache/listcache.go, for 30 s).
 */
export const kopiaProgram = String.raw`#!/bin/sh
fail() {
  echo "$1" >&2
  exit 1
}

if [ "$1" = repository ]; then
  case " $* " in *" --token-stdin "*) ;; *) fail "token is missing" ;; esac
  [ "$(cat)" = "good token" ] || fail "ERROR unable to parse token: invalid token"
  mkdir -p "$FAKE_KOPIA"
  case " $* " in *" --max-list-cache-duration=0s "*) ;; *) mkdir -p "$KOPIA_CACHE_DIRECTORY" ;; esac
  printf connected >"$KOPIA_CONFIG_PATH"
  exit
fi
[ -e "$KOPIA_CONFIG_PATH" ] || fail "ERROR repository is not connected. See https://kopia.io/docs/repositories/"

# The names of the last listing.
listed="$KOPIA_CACHE_DIRECTORY/blob-list"

# A text in JSON.
quoted() {
  case $1 in *[\"\\]*) printf '"%s"' "$(printf %s "$1" | sed 's/["\\]/\\&/g')" ;; *) printf '"%s"' "$1" ;; esac
}

# Members of JSON, each in a line of its own.
tags=
first=
second=
command="$1 $2"
flags="$*"
shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --tags)
      tags="$tags$(quoted "tag:${"$"}{2%%:*}"):$(quoted "${"$"}{2#*:}")
"
      shift
      ;;
    --*) ;;
    *) if [ -z "$first" ]; then first=$1; else second=$1; fi ;;
  esac
  shift
done

create() {
  [ -n "$first" ] || fail "path is missing"
  [ -e "$first" ] || fail "ERROR unable to get local filesystem entry: $first"
  read -r uuid </proc/sys/kernel/random/uuid
  id=$(echo "$uuid" | tr -d -)
  cp -a "$first" "$FAKE_KOPIA/$id"
  case " $flags " in *" --force-hash=100 "*) ;; *) reuse "$FAKE_KOPIA/$id" ;; esac
  hasPolicy --ignore-cache-dirs=false || omitCaches "$FAKE_KOPIA/$id"
  hasPolicy --add-dot-ignore=. || omitNamed "$FAKE_KOPIA/$id"
  failed=0
  case $KOPIA_FAULT in
    torn) failed=1 ;;
    ignored) hasPolicy --ignore-file-errors=false && failed=1 ;;
  esac
  members=$(printf %s "$tags" | paste -sd ,)
  manifest="{\"id\":\"$id\",\"source\":{\"host\":\"csimux\",\"userName\":\"csimux\",\"path\":$(quoted "$first")},"
  manifest="$manifest\"startTime\":\"$(date -u +%Y-%m-%dT%H:%M:%S.%3NZ)\","
  manifest="$manifest\"rootEntry\":{\"mode\":$((0$(stat -c %a "$first"))),\"summ\":{\"size\":1,\"numFailed\":$failed}},"
  printf '%s"tags":{%s}}\n' "$manifest" "$members" >"$FAKE_KOPIA/$id.json"
  rm -f "$listed"
  hasPolicy --keep-latest=2147483647 || expire
  cat "$FAKE_KOPIA/$id.json"
}

# Whether a flag of a policy holds for the folder.
hasPolicy() {
  for file in "$FAKE_KOPIA.policies$first/flags" "$FAKE_KOPIA.policies${"$"}{first%/*}/flags"; do
    [ -e "$file" ] || continue
    IFS= read -r policy <"$file"
    case " $policy " in *" $1 "*) return 0 ;; esac
  done
  return 1
}

# Files of the same time and size have the content of the last snapshot of the folder (snapshot/upload, metadataEquals).
reuse() {
  last=$(ls -t "$FAKE_KOPIA"/*.json 2>/dev/null | while IFS= read -r file; do
    IFS= read -r manifest <"$file"
    case $manifest in *"\"path\":$(quoted "$first")"*) echo "${"$"}{file%.json}" && break ;; esac
  done)
  [ -n "$last" ] || return 0
  (cd "$1" && find . -type f) | while IFS= read -r file; do
    [ "$(stat -c %s.%.9Y "$1/$file")" = "$(stat -c %s.%.9Y "$last/$file" 2>/dev/null)" ] && cp -p "$last/$file" "$1/$file"
  done
}

omitCaches() {
  find "$1" -name CACHEDIR.TAG | while IFS= read -r file; do
    rm -r "${"$"}{file%/CACHEDIR.TAG}"
    mkdir "${"$"}{file%/CACHEDIR.TAG}"
  done
}

# It resolves a link itself, so that no option of a mount hinders that (filesystemSymlink.Resolve).
omitNamed() {
  [ -e "$first/.kopiaignore" ] || [ -L "$first/.kopiaignore" ] || return 0
  while IFS= read -r name; do rm -rf "$1/$name"; done <"$(readlink -f "$first/.kopiaignore")"
}

expire() {
  kept=0
  ls -t "$FAKE_KOPIA"/*.json | while IFS= read -r file; do
    IFS= read -r manifest <"$file"
    case $manifest in *"\"path\":$(quoted "$first")"*) ;; *) continue ;; esac
    kept=$((kept + 1))
    [ "$kept" -le 10 ] || rm -r "$file" "${"$"}{file%.json}"
  done
}

set_policy() {
  place=$(cd "$first" && pwd -P)
  mkdir -p "$FAKE_KOPIA.policies$place"
  echo "$flags" >"$FAKE_KOPIA.policies$place/flags"
}

# Whether a manifest has every tag that is asked for.
wanted() {
  while IFS= read -r tag; do
    case $1 in *[{,]"$tag"[,}]*) ;; *) return 1 ;; esac
  done <<END
$(printf %s "$tags")
END
}

list() {
  [ ! -d "$KOPIA_CACHE_DIRECTORY" ] || [ -e "$listed" ] || ls "$FAKE_KOPIA" >"$listed"
  separator=
  printf '['
  for file in "$FAKE_KOPIA"/*.json; do
    [ -e "$file" ] || continue
    [ ! -e "$listed" ] || grep -qxF "${"$"}{file##*/}" "$listed" || continue
    IFS= read -r manifest <"$file"
    [ -z "$tags" ] || wanted "$manifest" || continue
    printf '%s%s' "$separator" "$manifest"
    separator=,
  done
  printf ']'
}

restore() {
  set -- "$FAKE_KOPIA/$first"*.json
  [ -e "$1" ] || fail "ERROR no snapshots matched"
  mkdir -p "$second"
  if [ "$KOPIA_FAULT" = squashed ]; then
    cp -a --no-preserve=ownership "${"$"}{1%.json}/." "$second"
    # cli/command_restore.go: by default an error of permissions is ignored.
    case " $flags " in *" --no-ignore-permission-errors "*) fail "ERROR could not change owner/group for $second: operation not permitted" ;; esac
  else
    cp -a "${"$"}{1%.json}/." "$second"
  fi
}

remove() {
  [ -e "$FAKE_KOPIA/$first.json" ] || fail "ERROR no snapshots matched"
  rm -r "$FAKE_KOPIA/$first.json" "$FAKE_KOPIA/$first"
  rm -f "$listed"
}

case $command in
  "snapshot create") create ;;
  "snapshot list") list ;;
  "snapshot restore") restore ;;
  "snapshot delete") remove ;;
  "policy set") set_policy ;;
  *) fail "unknown command $command" ;;
esac
`;
