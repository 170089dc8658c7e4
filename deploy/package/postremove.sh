#!/bin/sh
# After a removal: the data stays. dpkg --purge deletes it, with all else.
set -e

[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "$1" = purge ]; then
	rm -rf /var/lib/keyp /var/log/keyp /etc/keyp
	! getent passwd keyp >/dev/null || userdel keyp
	! getent group keyp >/dev/null || groupdel keyp
fi
