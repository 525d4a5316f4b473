#!/bin/bash
# Start a real sshd on a free loopback port, for one user, with a key made here.
# Usage: start_sshd.sh FOLDER USER.  Prints its pid and port.  The user's .bashrc greets, as login
# nodes do: what it prints must never be taken for output.
set -euo pipefail
place=$1 user=$2
if ! [ -x /usr/sbin/sshd ]; then
  apt-get install -y --no-install-recommends openssh-server >/dev/null 2>&1 ||
    { apt-get update >/dev/null; apt-get install -y --no-install-recommends openssh-server >/dev/null; }
fi
id "$user" >/dev/null 2>&1 || useradd -m -s /bin/bash "$user"
usermod -p '*' "$user"            # a locked password would keep the key out, too
mkdir -p /run/sshd
home=$(getent passwd "$user" | cut -d: -f6)
[ -f "$place/host" ] || ssh-keygen -q -t ed25519 -N '' -f "$place/host"
[ -f "$place/key" ] || ssh-keygen -q -t ed25519 -N '' -f "$place/key"
install -d -o "$user" -m 700 "$home/.ssh"
install -o "$user" -m 600 "$place/key.pub" "$home/.ssh/authorized_keys"
grep -q 'Welcome to the login node' "$home/.bashrc" 2>/dev/null ||
  { printf 'echo "Welcome to the login node"\necho "motd on stderr" >&2\n'; cat "$home/.bashrc" 2>/dev/null; } > "$place/rc"
[ -s "$place/rc" ] && install -o "$user" -m 644 "$place/rc" "$home/.bashrc"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat > "$place/config" <<C
Port $port
ListenAddress 127.0.0.1
HostKey $place/host
PidFile $place/pid
UsePAM no
PasswordAuthentication no
StrictModes no
MaxSessions 100
MaxStartups 100
C
/usr/sbin/sshd -f "$place/config" -E "$place/log"
for ((i=0; i<100; i++)); do [ -s "$place/pid" ] && break; sleep 0.1; done
echo "$(cat "$place/pid") $port"
