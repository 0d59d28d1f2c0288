#!/usr/bin/env bash
# Compare what the present code computes, bit for bit, with the code of a commit: tiny runs of every
# system and kind of task are made by that commit, and used, resumed, repeated and converted now.
#
#   tests/formats/net.sh COMMIT [OPTIONS OF PYTEST]     tests/formats/net.sh HEAD~3 -k bert
#
# Prints what differs (run, use, key, ours, expected) and exits with 1. Making the runs takes a
# minute, once for a commit (build/net/COMMIT, which git ignores); comparing them half a minute on
# two cores. Needs git, and a python with the package's dependencies and those of its tests.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "no commit $1" >&2; exit 2; }
shift
made=$root/build/net/$commit
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT

if [ ! -f "$made/expected/computer.json" ]; then # the file that is written last
    folder=formats
    git cat-file -e "$commit:tests/formats/make_runs.py" 2>/dev/null || folder=golden # before
    git worktree add --quiet --detach "$work/tree" "$commit"
    (
        cd "$work/tree"
        export PYTHONPATH=$work/tree/src
        used=$(python -c 'import bertwright; print(bertwright.__file__)')
        [ "$used" = "$work/tree/src/bertwright/__init__.py" ] || {
            echo "$used is imported, not the package of $commit" >&2
            exit 2
        }
        python -m "tests.$folder.make_runs" --out "$made"
    )
    echo "net: runs of $commit made, $SECONDS s"
fi

cp -R "$made" "$work/net"
export PYTHONPATH=$root/src BERTWRIGHT_NET=$work/net
python tests/formats/rename_keys.py "$work/net"
status=0
pytest --dist worksteal --tb=short tests/formats/net.py "$@" || status=$?
echo "net: compared with $commit, $SECONDS s, $([ "$status" = 0 ] && echo equal || echo DIFFERENT)"
exit "$status"
