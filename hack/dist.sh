#!/bin/sh
# What archives and packages have beside the program, below .cache/dist: licences, completions, man pages, the chart.
#
#   hack/dist.sh CHART-VERSION APP-VERSION SECONDS
set -eu
cd "$(dirname "$0")/.."
out=.cache/dist
rm -rf $out
mkdir -p $out/completions
go build -o $out/docket ./cmd/docket
for shell in bash fish zsh; do $out/docket completion $shell >$out/completions/docket.$shell; done
go run ./hack/commands -man $out/man
gzip -9n $out/man/*

# A copy of the program must come with the licences of what it is linked with.
{
	echo "docket is linked with the following software."
	go version -m $out/docket | awk '$1 == "dep" || $1 == "=>" {print $2, $3}' | while read -r path version; do
		dir=$(go list -m -f '{{.Dir}}' "$path")
		case $path in github.com/docket-export/*) continue ;; esac
		for text in "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
			[ ! -f "$text" ] || { printf '\n%s %s, %s\n\n' "$path" "$version" "${text##*/}" && cat "$text"; }
		done
	done
	printf '\nThe standard library of Go, LICENSE\n\n'
	cat "$(go env GOROOT)/LICENSE"
} >$out/NOTICE
rm $out/docket

cp -R charts/docket $out/docket
sed -i "s/^version: .*/version: $1/; s/^appVersion: .*/appVersion: $2/" $out/docket/Chart.yaml
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$3" --mode=u=rwX,go=rX --directory=$out docket | gzip -9n >"$out/docket-$1.tgz"
