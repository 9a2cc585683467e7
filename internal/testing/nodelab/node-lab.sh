#!/bin/bash
# node-lab.sh: a small cluster on one machine, to try what happens between nodes.
#
# A node is a process tree with namespaces of its own: network (veth into a bridge that
# lives in a namespace too), host name, processes, mounts (own /tmp, /run, /dev/shm and
# LAB_DIR/local), System V IPC and, where the kernel has it, clocks as after another boot.
# Everything else of the file system is common to all nodes, as on a cluster with a shared
# file system: LAB_DIR/shared is a place for programs and snapshots. On each runs an sshd
# on port 22; all names resolve, and ssh asks for nothing, as root or as user "worker".
#
# Outside of the namespaces this makes only LAB_DIR and, if there is one, a folder in the
# cgroup2 tree. It changes no interface, route, rule, user, service or mount of the machine.
#
# Needs root and: apt-get install openssh-server openssh-client nftables iproute2 util-linux python3
# (delay needs python3 only where the kernel lacks netem). Exit status 77: not possible here;
# 78: it would be, with packages that are missing.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

LAB_DIR=${LAB_DIR:-/var/tmp/gorun-lab}
LAB_NETS=${LAB_NETS:-1}     # networks every node is on: 10.77.0.0/24, 10.78.0.0/24, ...
LAB_CLOCKS=${LAB_CLOCKS:-1} # 1: the monotonic clocks of the nodes differ by hours
LAB_PIN=${LAB_PIN:-0}       # 1: each node has one of the processors, in turn, and not all of them
LAB_TCP=${LAB_TCP:-reno}    # congestion control: bbr, some kernels' default, paces; cubic only the first namespace may set
WORKER_ID=4711

usage() {
	cat <<'TEXT'
usage: node-lab.sh COMMAND
  up [N]                bring up nodes n1 .. nN (default 4)
  hold [N]              as up; then down, as soon as standard input ends, whatever has ended who holds it
  down                  end all of it and remove LAB_DIR
  status | hosts        what there is | a hostfile
  exec [-u worker] NODE CMD [ARG...]    run a command on a node
  all CMD [ARG...]      on all nodes at once, as the pods of an Indexed Job: JOB_COMPLETION_INDEX, HOSTS
  kill NODE...          power cut, of several nodes at one instant: the links first, so that no FIN leaves, then every process
  start NODE            power on again, with nothing of its /tmp, /run and /dev/shm left
  unplug | plug NODE    take the link down | up
  freeze | thaw NODE    stop | continue every process; the kernel still acknowledges TCP
  pause | resume NODE   as a virtual machine that is stopped: freeze and unplug | plug and thaw
  partition [-o] A[,B..] [C,D..]   drop what goes between the two groups (default: all others);
                                   -o: only what the first sends to the second
  heal                  take back all partitions and losses
  loss NODE PERCENT     drop at random what the node sends
  delay NODE MS|off     both ways, MS each
  rate NODE RATE|off    both ways, as tc writes it: 100mbit
  time CMD [ARG...]     run a command here and print how long it took and its exit status
LAB_DIR, LAB_NETS, LAB_CLOCKS, LAB_TCP and LAB_PIN in the environment of up set the folder (several labs can
be up at once, each in its own), the number of networks, whether clocks differ, the congestion control, and
whether nodes have processors of their own. Without LAB_PIN=1 the nodes share all of them, and programs that
choose one by its number (mpirun without --bind-to none, ranks of gorun that move home) meet on the same one.
TEXT
}

die() { echo "node-lab: $*" >&2; exit 1; }
skip() { echo "node-lab: not possible here: $*" >&2; exit 77; }
lack() { echo "node-lab: missing: $*" >&2; exit 78; }

# --- what must be there -------------------------------------------------------------------

capable() {
	[ "$(id -u)" = 0 ] || skip "only root can make network namespaces"
	local tool missing=()
	for tool in unshare nsenter ip nft sshd ssh ssh-keygen setpriv setsid python3; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	[ ${#missing[@]} = 0 ] || lack "${missing[*]} (apt-get install openssh-server openssh-client nftables iproute2 util-linux python3)"
	unshare --net --uts --mount --pid --ipc --fork true 2>/dev/null || skip "the kernel or a container refuses namespaces"
	unshare --net ip link add type veth 2>/dev/null || skip "the kernel has no veth"
	unshare --net ip link add type bridge 2>/dev/null || skip "the kernel has no bridge"
}

# --- processes that this script has started -----------------------------------------------

# A process is known by its number and the time it was started, so that a number that has
# gone to somebody else is never signalled.
born() {
	local s fields
	s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	read -ra fields <<<"${s##*) }"
	echo "${fields[19]}"
}
remember() { echo "$2 $(born "$2")" >"$LAB_DIR/run/$1"; } # NAME PID
pid_of() {
	local pid start
	[ -e "$LAB_DIR/run/$1" ] || return 1
	read -r pid start <"$LAB_DIR/run/$1" || return 1
	[ "$(born "$pid")" = "$start" ] || return 1
	echo "$pid"
}
end() { # NAME
	local pid
	if pid=$(pid_of "$1"); then
		kill -KILL "$pid" 2>/dev/null || true
		while [ -n "$(pid_of "$1" || true)" ] && [ "$(state_of "$pid")" != Z ]; do sleep 0.01; done
	fi
	rm -f "$LAB_DIR/run/$1"
}
state_of() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 0; s=${s##*) }; echo "${s%% *}"; }

need_up() { [ -e "$LAB_DIR/.gorun-lab" ] || die "there is no lab in $LAB_DIR: node-lab.sh up"; }
nodes() { local i n; n=$(cat "$LAB_DIR/count"); for ((i = 1; i <= n; i++)); do echo "n$i"; done; }
known() {
	[ -d "$LAB_DIR/nodes/$1" ] || die "there is no node $1: $(nodes | tr '\n' ' ')"
}
alive() { known "$1"; pid_of "$1" >/dev/null || die "node $1 is off: node-lab.sh start $1"; }

in_switch() { nsenter -t "$(pid_of switch)" -n -- "$@"; }
in_net() { local node=$1; shift; nsenter -t "$(pid_of "$node")" -n -- "$@"; }

# --- addresses ----------------------------------------------------------------------------

address() { echo "10.$((77 + $2)).0.${1#n}"; }          # NODE NET
port() { printf '%s%b' "$1" "\\x$((61 + $2))"; }        # the switch's end of its cable: n1a, n1b
nets() { local k; for ((k = 0; k < LAB_NETS; k++)); do echo "$k"; done; }

make_etc() {
	local node k
	# Homes of their own: sshd's shell reads .bashrc, and who knows what that of this machine does.
	sed "s,^\(root:[^:]*:0:0:[^:]*\):[^:]*:.*,\1:$LAB_DIR/home/root:/bin/bash," /etc/passwd >"$LAB_DIR/etc/passwd"
	echo "worker:*:$WORKER_ID:$WORKER_ID::$LAB_DIR/home/worker:/bin/bash" >>"$LAB_DIR/etc/passwd"
	cat /etc/group >"$LAB_DIR/etc/group"
	echo "worker:x:$WORKER_ID:" >>"$LAB_DIR/etc/group"
	{
		echo "127.0.0.1 localhost"
		echo "::1 localhost ip6-localhost"
		for node in $(nodes); do
			echo "$(address "$node" 0) $node $node.lab job-$((${node#n} - 1)).svc"
			echo "fd77::${node#n} $node-6"
			for k in $(nets); do [ "$k" = 0 ] || echo "$(address "$node" "$k") $node-$k"; done
		done
	} >"$LAB_DIR/etc/hosts"
	install -d -m 0755 "$LAB_DIR/home" "$LAB_DIR/home/root"
	install -d -o $WORKER_ID -g $WORKER_ID -m 0755 "$LAB_DIR/home/worker"
	install -d -m 1777 "$LAB_DIR/shared"
}

make_keys() {
	local d=$LAB_DIR/ssh
	ssh-keygen -q -t ed25519 -N '' -C lab-host -f "$d/host"
	ssh-keygen -q -t ed25519 -N '' -C lab-user -f "$d/id_root"
	install -o $WORKER_ID -g $WORKER_ID -m 0600 "$d/id_root" "$d/id_worker"
	cp "$d/id_root.pub" "$d/authorized_keys"
	echo "* $(cut -d' ' -f1,2 "$d/host.pub")" >"$d/known_hosts"
	chmod 0644 "$d/authorized_keys" "$d/known_hosts"
	cat >"$d/sshd_config" <<-TEXT
		Port 22
		HostKey $d/host
		AuthorizedKeysFile $d/authorized_keys
		StrictModes no
		UsePAM no
		PermitRootLogin prohibit-password
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		PidFile /run/sshd.pid
		PrintMotd no
	TEXT
	cat >"$d/ssh_config" <<-TEXT
		Host *
		  IdentityFile $d/id_%u
		  IdentitiesOnly yes
		  UserKnownHostsFile $d/known_hosts
		  StrictHostKeyChecking yes
		  BatchMode yes
		  LogLevel ERROR
	TEXT
}

# --- nodes --------------------------------------------------------------------------------

# The first process of a node. What is mounted here is mounted in the node alone.
make_init() {
	cat >"$LAB_DIR/init" <<'TEXT'
#!/bin/bash
set -eu
node=$1 dir=$2
read -r outer _ </proc/self/stat # the old /proc still tells the number outside
hostname "$node"
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/sshd "$dir/nodes/$node/local" "$dir/local"
[ -d /run/lock ] || mkdir -m 1777 /run/lock
mount --bind "$dir/nodes/$node/local" "$dir/local"
for f in hosts passwd group; do mount --bind "$dir/etc/$f" "/etc/$f"; done
mount --bind "$dir/ssh/ssh_config" /etc/ssh/ssh_config
cat /proc/sys/kernel/random/uuid >"$dir/nodes/$node/boot_id" # every start is another boot
mount --bind "$dir/nodes/$node/boot_id" /proc/sys/kernel/random/boot_id
echo "$outer" >"$dir/nodes/$node/outer.new"
mv "$dir/nodes/$node/outer.new" "$dir/nodes/$node/outer"
until [ -e "$dir/nodes/$node/go" ]; do sleep 0.02; done
/usr/sbin/sshd -D -e -f "$dir/ssh/sshd_config" 2>>"$dir/nodes/$node/sshd.log" &
trap : TERM INT HUP
while :; do sleep 1000 & wait $! || :; done # bash reaps whatever loses its parent
TEXT
	chmod 0755 "$LAB_DIR/init"
}

cgroup_root() { awk '$9 == "cgroup2" || $10 == "cgroup2" { print $5; exit }' /proc/self/mountinfo; }
cgroup_of() { local r; r=$(cat "$LAB_DIR/cgroup"); [ -n "$r" ] && echo "$r/$1"; }

start_node() {
	local node=$1 d=$LAB_DIR/nodes/$1 pid k clocks=() pin=() offset=$((${1#n} * 7200))
	mkdir -p "$d"
	rm -f "$d/outer" "$d/go" "$d/off"
	[ "$LAB_CLOCKS" = 1 ] && [ -e /proc/self/ns/time ] && clocks=(--time --monotonic "$offset" --boottime "$offset")
	[ "$LAB_PIN" = 1 ] && pin=(taskset -c $(((${node#n} - 1) % $(nproc))))
	env -u XDG_RUNTIME_DIR setsid "${pin[@]}" unshare --net --uts --mount --pid --ipc "${clocks[@]}" --fork --kill-child \
		"$LAB_DIR/init" "$node" "$LAB_DIR" </dev/null >>"$d/init.log" 2>&1 &
	disown
	for ((k = 0; k < 3000; k++)); do [ -e "$d/outer" ] && break; sleep 0.02; done
	[ -e "$d/outer" ] || { cat "$d/init.log" >&2; die "node $node did not come up"; }
	pid=$(cat "$d/outer")
	remember "$node" "$pid"
	if k=$(cgroup_of "$node"); then
		mkdir -p "$k" && echo "$pid" >"$k/cgroup.procs"
	fi
	plug "$node"
	touch "$d/go"
	for ((k = 0; k < 3000; k++)); do
		in_net "$node" bash -c ": </dev/tcp/127.0.0.1/22" 2>/dev/null && return
		sleep 0.02
	done
	cat "$d/sshd.log" >&2
	die "the sshd of $node does not listen"
}

plug() {
	local node=$1 k p
	for k in $(nets); do
		p=$(port "$node" "$k")
		if in_switch ip link show "$p" >/dev/null 2>&1; then
			in_switch ip link set "$p" up
			continue
		fi
		in_switch ip link add "$p" type veth peer name "eth$k" address "02:00:00:00:0$k:$(printf %02x "${node#n}")" netns "$(pid_of "$node")"
		in_switch ip link set "$p" master "br$k" up
		in_net "$node" ip address add "$(address "$node" "$k")/24" dev "eth$k"
		[ "$k" = 0 ] && in_net "$node" ip address add "fd77::${node#n}/64" dev "eth$k" nodad 2>/dev/null
		in_net "$node" ip link set "eth$k" up
		in_net "$node" ip link set lo up
		in_net "$node" bash -c "echo $LAB_TCP >/proc/sys/net/ipv4/tcp_congestion_control" 2>/dev/null || true
	done
}

unplug() { local k; for k in $(nets); do in_switch ip link set "$(port "$1" "$k")" down; done; }

power_off() { # NODE...: at one instant
	local node k
	for node in "$@"; do for k in $(nets); do # both ends go, and so does whatever would still have left
		echo "link del $(port "$node" "$k")"
		echo "link del $(port "$node" "$k")x" # where there is a delay
	done; done | in_switch ip -force -batch - 2>/dev/null || true
	for node in "$@"; do end_node "$node"; done
}

end_node() {
	local node=$1 k d
	for k in $(nets); do end "delay-$(port "$node" "$k")"; done
	if d=$(cgroup_of "$node") && [ -e "$d/cgroup.freeze" ]; then echo 0 >"$d/cgroup.freeze"; fi
	end "$node" # the first process of a pid namespace: all others end with it
	if d=$(cgroup_of "$node") && [ -d "$d" ]; then
		for ((k = 0; k < 3000; k++)); do rmdir "$d" 2>/dev/null && break; sleep 0.02; done
	fi
	touch "$LAB_DIR/nodes/$node/off"
}

freeze() {
	local d k
	d=$(cgroup_of "$1") || skip "there is no cgroup2 tree, which freezes a node"
	echo "$2" >"$d/cgroup.freeze"
	for ((k = 0; k < 3000; k++)); do grep -q "frozen $2" "$d/cgroup.events" && return; sleep 0.02; done
	die "node $1 is not frozen after 60 s"
}

# --- what is done to the network ----------------------------------------------------------

severed() { # FROM TO: node names; the pairs of ports between which nothing goes
	local k
	for k in $(nets); do printf '%s . %s, ' "$(port "$1" "$k")" "$(port "$2" "$k")"; done
}

partition() {
	local both=1 a b left right pairs=
	[ "${1:-}" = -o ] && both=0 && shift
	left=${1//,/ }
	right=${2:-}
	right=${right//,/ }
	[ -n "$left" ] || die "partition needs a node"
	if [ -z "$right" ]; then
		for b in $(nodes); do case " $left " in *" $b "*) ;; *) right+=" $b" ;; esac; done
	fi
	for a in $left; do for b in $right; do
		known "$a"; known "$b"
		pairs+=$(severed "$a" "$b")
		[ $both = 1 ] && pairs+=$(severed "$b" "$a")
	done; done
	in_switch nft add element bridge lab cut "{ ${pairs% } }" # all at one instant
}

heal() { in_switch nft flush set bridge lab cut; in_switch nft flush chain bridge lab loss; }

loss() {
	local k
	for k in $(nets); do
		# shellcheck disable=SC2046
		in_switch nft add rule bridge lab loss iifname "$(port "$1" "$k")" $([ "$2" -ge 100 ] || echo "numgen random mod 100 < $2") drop
	done
}

has_netem() { unshare --net bash -c 'ip link add a type veth peer name b && tc qdisc add dev a root netem delay 1ms' 2>/dev/null; }

delay() {
	local node=$1 ms=$2 k p
	for k in $(nets); do
		p=$(port "$node" "$k")
		if has_netem; then
			in_switch tc qdisc del dev "$p" root 2>/dev/null || true
			in_net "$node" tc qdisc del dev "eth$k" root 2>/dev/null || true
			[ "$ms" = off ] && continue
			in_switch tc qdisc add dev "$p" root netem delay "${ms}ms"
			in_net "$node" tc qdisc add dev "eth$k" root netem delay "${ms}ms"
			continue
		fi
		# Without netem: the cable ends at a process that passes frames on late.
		if [ -n "$(pid_of "delay-$p" || true)" ]; then
			in_switch ip link del "${p}x"
			end "delay-$p"
			in_switch ip link set "$p" master "br$k"
		fi
		[ "$ms" = off ] && continue
		in_switch ip link add "${p}x" type veth peer name "${p}y"
		in_switch ip link set "$p" nomaster
		in_switch ip link set "${p}y" master "br$k" up
		in_switch ip link set "${p}x" up
		in_net "$node" python3 "$LAB_DIR/delay.py" plain "eth$k"
		in_switch python3 "$LAB_DIR/delay.py" plain "${p}y"
		setsid nsenter -t "$(pid_of switch)" -n -- python3 "$LAB_DIR/delay.py" pass "$p" "${p}x" "$ms" \
			</dev/null >>"$LAB_DIR/delay.log" 2>&1 &
		remember "delay-$p" $!
		disown
	done
}

make_delay() {
	cat >"$LAB_DIR/delay.py" <<'TEXT'
"""plain IF: no offloads, so that frames are whole.  pass A B MS: what comes from one goes to the other MS later."""
import collections, fcntl, select, socket, struct, sys, time

def plain(name):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for command in (0x17, 0x1f, 0x24, 0x2c):  # tx checksums, tso, gso, gro
        value = struct.pack("II", command, 0)
        import array
        buf = array.array("B", value)
        address, _ = buf.buffer_info()
        try:
            fcntl.ioctl(s, 0x8946, struct.pack("16sP", name.encode(), address))
        except OSError:
            pass

def open_raw(name):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    s.bind((name, 0))
    s.setblocking(False)
    return s

def carry(a, b, ms):
    ends = [open_raw(a), open_raw(b)]
    late = [collections.deque(), collections.deque()]
    while True:
        now = time.monotonic()
        wait = None
        for i in (0, 1):
            while late[i] and late[i][0][0] <= now:
                _, frame = late[i].popleft()
                try:
                    ends[1 - i].send(frame)
                except OSError:
                    pass
            if late[i]:
                left = late[i][0][0] - now
                wait = left if wait is None else min(wait, left)
        for s in select.select(ends, [], [], wait)[0]:
            i = ends.index(s)
            for _ in range(64):
                try:
                    frame, (_, _, kind, *_) = s.recvfrom(65536)
                except BlockingIOError:
                    break
                except OSError:
                    return
                if kind != 4:  # not what we have sent
                    late[i].append((time.monotonic() + ms / 1000, frame))

if sys.argv[1] == "plain":
    plain(sys.argv[2])
else:
    carry(sys.argv[2], sys.argv[3], float(sys.argv[4]))
TEXT
}

rate() {
	local k p
	for k in $(nets); do
		p=$(port "$1" "$k")
		in_switch tc qdisc del dev "$p" root 2>/dev/null || true
		in_net "$1" tc qdisc del dev "eth$k" root 2>/dev/null || true
		[ "$2" = off ] && continue
		in_switch tc qdisc add dev "$p" root tbf rate "$2" burst 128kb latency 50ms
		in_net "$1" tc qdisc add dev "eth$k" root tbf rate "$2" burst 128kb latency 50ms
	done
}

# --- all of it ----------------------------------------------------------------------------

up() {
	local n=${1:-4} k node pid
	case $n in '' | *[!0-9]*) die "up needs a number" ;; esac
	if [ "$n" -lt 1 ] || [ "$n" -gt 250 ]; then die "1 to 250 nodes"; fi
	capable
	[ -e "$LAB_DIR" ] && die "$LAB_DIR exists: node-lab.sh down first"
	install -d -m 0755 "$LAB_DIR" "$LAB_DIR/nodes" "$LAB_DIR/etc" "$LAB_DIR/ssh" "$LAB_DIR/run" "$LAB_DIR/local"
	echo "made by node-lab.sh" >"$LAB_DIR/.gorun-lab"
	trap 'down; exit 1' ERR INT TERM
	echo "$n" >"$LAB_DIR/count"
	echo "LAB_NETS=$LAB_NETS LAB_CLOCKS=$LAB_CLOCKS LAB_TCP=$LAB_TCP LAB_PIN=$LAB_PIN" >"$LAB_DIR/settings"
	: >"$LAB_DIR/cgroup"
	k=$(cgroup_root)
	if [ -n "$k" ] && k=$(mktemp -d "$k/gorun-lab-XXXXXX" 2>/dev/null); then echo "$k" >"$LAB_DIR/cgroup"; fi
	make_etc
	make_keys
	make_init
	make_delay
	setsid unshare --net sleep infinity </dev/null >/dev/null 2>&1 &
	pid=$!
	disown
	until [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
	remember switch "$pid"
	for k in $(nets); do
		in_switch ip link add "br$k" type bridge mcast_snooping 0
		in_switch ip link set "br$k" up
	done
	in_switch nft -f - <<-'TEXT'
		table bridge lab {
			set cut { type ifname . ifname; }
			chain loss { }
			chain forward {
				type filter hook forward priority 0; policy accept;
				iifname . oifname @cut drop
				jump loss
			}
		}
	TEXT
	for node in $(nodes); do start_node "$node"; done
	trap - ERR INT TERM
	echo "up: $(nodes | tr '\n' ' ')in $LAB_DIR"
}

down() {
	local node f d
	[ -e "$LAB_DIR/.gorun-lab" ] || { echo "node-lab: nothing to take down in $LAB_DIR"; return 0; }
	for node in $(nodes); do [ -d "$LAB_DIR/nodes/$node" ] && power_off "$node"; done
	for f in "$LAB_DIR"/run/*; do [ -e "$f" ] && end "${f##*/}"; done
	d=$(cat "$LAB_DIR/cgroup" 2>/dev/null || true)
	case $d in */gorun-lab-??????) rmdir "$d"/n* "$d" 2>/dev/null || true ;; esac
	grep -q " $LAB_DIR/" /proc/self/mountinfo && die "something is mounted below $LAB_DIR, which stays"
	case $LAB_DIR in
	/*/*) rm -rf --one-file-system "${LAB_DIR:?}" ;;
	*) die "LAB_DIR=$LAB_DIR is not removed: too short a path" ;;
	esac
	echo "down"
}

# Says that it is up, waits until nobody holds its standard input, and takes it down.
hold() {
	up "$@"
	exec >>"$LAB_DIR.log" 2>&1 # who held it may be gone
	cat >/dev/null
	down
}

status() {
	local node state d pid
	for node in $(nodes); do
		state=up pid=$(pid_of "$node" || true)
		if [ -z "$pid" ]; then
			state=off
		else
			if d=$(cgroup_of "$node") && grep -q 'frozen 1' "$d/cgroup.events" 2>/dev/null; then state=frozen; fi
			in_switch ip -o link show "$(port "$node" 0)" | grep -q 'state UP' || state+=,unplugged
		fi
		printf '%-5s %-12s %-18s pid %-8s %s processes\n' "$node" "$(address "$node" 0)" "$state" "${pid:--}" \
			"$([ -n "$pid" ] && nsenter -t "$pid" -m -p -- sh -c 'ls -d /proc/[0-9]*' 2>/dev/null | wc -l || echo 0)"
	done
	in_switch nft list set bridge lab cut | grep elements || true
}

on_node() {
	local user=root node pid time=() pin=() cgroup
	[ "${1:-}" = -u ] && user=$2 && shift 2
	node=$1
	shift
	alive "$node"
	pid=$(pid_of "$node")
	[ -e "/proc/$pid/ns/time" ] && time=(-T)
	[ "$LAB_PIN" = 1 ] && pin=(taskset -c $(((${node#n} - 1) % $(nproc))))
	local as=(env HOME="$LAB_DIR/home/root" USER=root LOGNAME=root)
	if [ "$user" = worker ]; then
		as=(setpriv --reuid="$WORKER_ID" --regid="$WORKER_ID" --clear-groups --pdeathsig KILL -- env HOME="$LAB_DIR/home/worker" USER=worker LOGNAME=worker)
	elif [ "$user" != root ]; then
		die "users are root and worker"
	fi
	# It stands still with the node, unless that does already.
	if cgroup=$(cgroup_of "$node") && [ "$(cat "$cgroup/cgroup.freeze" 2>/dev/null)" != 1 ]; then echo $$ >"$cgroup/cgroup.procs" || true; fi
	# What runs on the node ends with the process that this becomes.
	# shellcheck disable=SC2016
	exec env -u XDG_RUNTIME_DIR HOSTNAME="$node" "${pin[@]}" nsenter -t "$pid" -n -u -m -p -i "${time[@]}" -- \
		setpriv --pdeathsig KILL -- "${as[@]}" /bin/sh -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' sh "$PWD" "$@"
}

on_all() {
	local node pids=() hosts status=0 p
	hosts=$(nodes | tr '\n' ',')
	for node in $(nodes); do
		pid_of "$node" >/dev/null || continue
		(export JOB_COMPLETION_INDEX=$((${node#n} - 1)) HOSTS=${hosts%,}; on_node "$node" "$@") &
		pids+=($!)
	done
	for p in "${pids[@]}"; do wait "$p" || status=$?; done
	return $status
}

main() {
	local command=${1:-help}
	[ $# -gt 0 ] && shift
	case $command in
	help | -h | --help) usage; return ;;
	up) up "$@"; return ;;
	hold) hold "$@"; return ;;
	down) down; return ;;
	time)
		local t0 s=0
		t0=$(date +%s.%N)
		"$@" || s=$?
		echo "status $s after $(echo "$(date +%s.%N) $t0" | awk '{ printf "%.2f", $1 - $2 }') s" >&2
		return $s
		;;
	esac
	need_up
	# shellcheck disable=SC1091
	. "$LAB_DIR/settings"
	case $command in
	status) status ;;
	hosts) nodes ;;
	exec) on_node "$@" ;;
	all) on_all "$@" ;;
	kill) for node in "$@"; do known "$node"; done; power_off "$@" ;;
	start) known "$1"; pid_of "$1" >/dev/null && die "node $1 is on"; start_node "$1" ;;
	unplug) alive "$1"; unplug "$1" ;;
	plug) alive "$1"; plug "$1" ;;
	freeze) alive "$1"; freeze "$1" 1 ;;
	thaw) alive "$1"; freeze "$1" 0 ;;
	pause) alive "$1"; unplug "$1"; freeze "$1" 1 ;;
	resume) alive "$1"; plug "$1"; freeze "$1" 0 ;;
	partition) partition "$@" ;;
	heal) heal ;;
	loss) known "$1"; loss "$@" ;;
	delay) alive "$1"; delay "$@" ;;
	rate) alive "$1"; rate "$@" ;;
	*) usage >&2; exit 2 ;;
	esac
}

main "$@"
