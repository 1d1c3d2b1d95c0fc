#!/bin/sh
# build.sh OUT DIR: builds the stress test with the sources of the opam package 0install-solver, which are not
# part of this repository. They are taken from opam's installation, otherwise from Debian's source package,
# and cached. Exits with 77 if they are not available.
out=$1 folder=$2/solver
kept=${XDG_CACHE_HOME:-$HOME/.cache}/holdup/0install-solver

has_sources() { [ -e "$1/zeroinstall_solver.ml" ] && [ -e "$1/solver_core.ml" ]; }

# From the source package of Debian, with lists of packages of our own, so that it takes no privilege.
from_debian() {
	lists=$(mktemp -d) || return 1
	mkdir -p "$lists/state/lists/partial" "$lists/cache/archives/partial"
	apt-get indextargets --format 'deb-src $(REPO_URI) $(SUITE) $(COMPONENT)' 'Created-By: Packages' | sort -u >"$lists/sources.list"
	(
		cd "$lists" || exit 1
		set -- -q -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=- \
			-o Dir::State::lists="$lists/state/lists" -o Dir::Cache="$lists/cache"
		apt-get "$@" update && apt-get "$@" source --tar-only --download-only zeroinstall-injector &&
			tar -xf "$(ls zeroinstall-injector_*.orig.tar.* | grep -v asc$)" && mkdir -p "$kept" &&
			cp 0install-*/src/solver/*.ml 0install-*/src/solver/*.mli "$kept"
	) >"$lists/log" 2>&1
	rm -rf "$lists"
}

for sources in "$kept" "$(ocamlfind query 0install-solver 2>/dev/null)"; do
	has_sources "$sources" && break
done
if ! has_sources "$sources"; then
	command -v apt-get >/dev/null && from_debian
	sources=$kept
fi
if ! has_sources "$sources"; then
	echo "no sources of 0install-solver here: neither opam nor Debian's package has them" >&2
	exit 77
fi
mkdir -p "$folder" && cp "$sources"/*.ml "$sources"/*.mli stress.ml "$folder" && cd "$folder" &&
	ocamlopt -w -a -g -I +unix -o "$out" unix.cmxa s.ml sat.mli sat.ml solver_core.ml diagnostics.ml \
		zeroinstall_solver.mli zeroinstall_solver.ml stress.ml
