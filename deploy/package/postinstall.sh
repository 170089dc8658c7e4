#!/bin/sh
# After an installation or an upgrade, of deb and of rpm. The service is not started by itself: the port may be
# another server's. Where it runs already it is the new version afterwards.
set -e

getent group keyp >/dev/null || groupadd --system keyp
getent passwd keyp >/dev/null ||
	useradd --system --gid keyp --home-dir /var/lib/keyp --no-create-home --shell /usr/sbin/nologin keyp

install -d -o keyp -g keyp -m 0700 /var/lib/keyp
install -d -o keyp -g keyp -m 0750 /var/log/keyp
# CONFIG REWRITE and ACL SAVE put a new file in the place of the old one.
chown root:keyp /etc/keyp && chmod 0770 /etc/keyp
[ ! -e /etc/keyp/keyp.conf ] || chown root:keyp /etc/keyp/keyp.conf

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart keyp.service
fi
