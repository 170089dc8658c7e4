#!/bin/sh
# Before a removal, and before an upgrade, which restarts the server itself.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now keyp.service || true
	fi
	;;
esac
