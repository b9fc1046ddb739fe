# Downloads the packages that are its arguments, and those they depend on that this system
# does not have, and unpacks them in the directory that it runs in. A package that is
# installed is downloaded all the same: it may lack what the run needs beside it.
set -eu
plan=$(apt-get install --simulate --yes --no-install-recommends "$@")
needed=$(echo "$plan" | awk '$1 == "Inst" { print $2 }')
# shellcheck disable=SC2046,SC2086 # names of packages have no spaces
apt-get download $(printf '%s\n' "$@" $needed | awk '!seen[$0]++')
for file in *.deb; do
	dpkg -x "$file" .
done
