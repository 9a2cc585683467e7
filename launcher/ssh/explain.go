package ssh

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/gorun-mpi/gorun/launcher"
)

// refusals are what ssh says, and what to do about it. The first that fits counts.
var refusals = []struct{ says, text string }{
	{"Could not resolve hostname", "there is no host of that name: is it written right, and known to the resolver (getent hosts %[1]s)?"},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key has changed: if the node was set up again, ssh-keygen -R %[1]s and then ssh %[1]s once by hand; else there may be a man in the middle"},
	{"Host key verification failed", "its host key is not known here: ssh %[1]s once by hand and accept the key, or have it in known_hosts (ssh-keyscan)"},
	{"No matching host key", "its host key is of a kind that this ssh does not take: see HostKeyAlgorithms in ssh_config"},
	{"Permission denied", "it lets no user in without a password, and gorun asks for none: have a key there (ssh-copy-id %[1]s) and, if the key has a passphrase, an agent with it (ssh-add)"},
	{"Too many authentication failures", "the ssh agent has offered too many keys: name the one in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)"},
	{"Connection refused", "nothing listens there: is its sshd running? For another port give -ssh \"ssh -p PORT\", or name it in ~/.ssh/config"},
	{"Connection timed out", "it does not answer: is it up, and does a firewall keep ssh out?"},
	{"Operation timed out", "it does not answer: is it up, and does a firewall keep ssh out?"},
	{"No route to host", "it cannot be reached: is it up?"},
	{"Network is unreachable", "it cannot be reached: is it up?"},
	{"remote port forwarding failed", "its sshd forwards no port (AllowTcpForwarding)"},
	{"Exec format error", "it is another kind of machine: all nodes of a job must be of one kind"},
}

// busySays are what a client says whose connection an overloaded sshd has dropped.
var busySays = []string{"kex_exchange_identification", "Connection reset by", "Connection closed by remote host"}

func busy(said string) bool {
	for _, s := range busySays {
		if strings.Contains(said, s) && !strings.Contains(said, "Permission denied") {
			return true
		}
	}
	return false
}

// explain says what the user can do about a login by a command that failed.
func explain(command []string, n launcher.Node, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s is not in PATH here: install an ssh client, or name it with -ssh", command[0])
	}
	var failed *launcher.StartError
	if !errors.As(err, &failed) {
		return err
	}
	target := n.Name
	if n.Addr != "" {
		target = n.Addr
	}
	if n.User != "" {
		target = n.User + "@" + target
	}
	for _, r := range refusals {
		if strings.Contains(failed.All, r.says) {
			remedy := r.text
			if strings.Contains(remedy, "%") {
				remedy = fmt.Sprintf(remedy, target)
			}
			return fmt.Errorf("%s (%s: %s)", remedy, command[0], failed.Said)
		}
	}
	if busy(failed.All) {
		return fmt.Errorf("its sshd drops connections, twice in a row: too many at once (MaxStartups in its sshd_config), or it refuses this machine (%s: %s)", command[0], failed.Said)
	}
	return fmt.Errorf("%s %s: %w", strings.Join(command, " "), target, err)
}
