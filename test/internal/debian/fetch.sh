set -eu
# A machine that was just made has no lists of packages, and only root can get them.
apt-get download prometheus 2>/dev/null || { apt-get update -q; apt-get download prometheus; }
dpkg -x prometheus_*.deb .
rm prometheus_*.deb
