// Package ssh starts keepers by ssh: one login to each node, which stays as long as the keeper does.
//
//	ssh -T -x -o BatchMode=yes -o ConnectTimeout=30 -- b /bin/sh -c 'SCRIPT' gorun PATH DIGEST
//
// No terminal is asked for, no X11 and no question: a login that would ask for a password fails. The
// script runs gorun from the path that it has on the head's machine if it is there too, as on a
// shared file system. Otherwise it runs the copy in the user's cache folder:
//
//	${XDG_CACHE_HOME:-~/.cache}/gorun/bin/DIGEST/gorun
//
// Where that is missing, too, gorun copies itself there through a login of its own. The copy appears
// whole or not at all, and the keeper checks its own digest whatever it was started from. Copies of
// other digests that are older than 30 days are removed. The folder may be removed at any time.
//
// Nothing of gorun's is on a command line but digests, and nothing in the environment: the ticket
// goes over standard input. ssh's own configuration counts (~/.ssh/config), and so do its keys and
// agent. -ssh names another command, with options: -ssh "ssh -p 2222".
//
// A login to a busy node may be refused by its sshd (MaxStartups). It is tried once more.
package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gorun-mpi/gorun/launcher"
)

// Manager logs in by ssh.
type Manager struct{ command []string }

// New returns a manager that logs in by a command with options, as a shell's words; "" is ssh.
func New(command string) (*Manager, error) {
	words, err := split(command)
	if err != nil {
		return nil, fmt.Errorf("-ssh %s: %w", command, err)
	}
	if len(words) == 0 {
		words = []string{"ssh"}
	}
	return &Manager{words}, nil
}

// Name returns "ssh".
func (m *Manager) Name() string { return "ssh" }

// run is the script that runs gorun: $1 is its path, "" not to try that, $2 its digest. It is one
// line without ' and !, because the user's shell there may be any.
const run = `for g in "$1" "${XDG_CACHE_HOME:-$HOME/.cache}/gorun/bin/$2/gorun"; do ` +
	`if [ -n "$g" ] && [ -f "$g" ] && [ -x "$g" ]; then exec "$g" ` + launcher.KeeperVerb + ` "$2"; fi; done; ` +
	`echo; echo "` + launcher.KeeperMissing + `$(uname -sm)"`

// stage is the script that makes a copy of gorun: $1 is its digest, $2 its size, its standard input
// the file.
const stage = `umask 077; d="${XDG_CACHE_HOME:-$HOME/.cache}/gorun/bin"; mkdir -p "$d/$1" || exit 1; t="$d/$1/.new.$$"; ` +
	`trap "rm -f \"$t\"" 0; cat >"$t" && chmod 700 "$t" && [ "$(wc -c <"$t")" -eq "$2" ] && mv -f "$t" "$d/$1/gorun" || exit 1; ` +
	`touch "$d/$1"; find "$d" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + 2>/dev/null; exit 0`

// Start logs in and starts the keeper.
func (m *Manager) Start(ctx context.Context, n launcher.Node, ticket []byte) (launcher.Process, error) {
	return m.start(ctx, n, nil, func([]byte) ([]byte, error) { return ticket, nil })
}

// StartThrough logs in with a port there that leads here.
func (m *Manager) StartThrough(ctx context.Context, n launcher.Node, port int, ticket func(int) []byte) (launcher.Process, error) {
	options := []string{"-o", "ExitOnForwardFailure=yes", "-R", fmt.Sprintf("0:127.0.0.1:%d", port), "-o", "LogLevel=INFO"}
	return m.start(ctx, n, options, func(said []byte) ([]byte, error) {
		match := allocated.FindSubmatch(said)
		if match == nil {
			return nil, errors.New("ssh -R has not told which port it has opened there: does its sshd allow it (AllowTcpForwarding)?")
		}
		p, err := strconv.Atoi(string(match[1]))
		if err != nil {
			return nil, err
		}
		return ticket(p), nil
	})
}

var allocated = regexp.MustCompile(`(?m)^Allocated port (\d{1,5}) for remote forward`)

func (m *Manager) start(ctx context.Context, n launcher.Node, options []string, ticket func([]byte) ([]byte, error)) (launcher.Process, error) {
	self, err := launcher.Self()
	if err != nil {
		return nil, err
	}
	try := func(path string) (launcher.Process, error) {
		return again(ctx, func() (launcher.Process, error) {
			cmd, err := m.login(n, options, run, path, self.Digest)
			if err != nil {
				return nil, err
			}
			return launcher.ExecAsking(ctx, cmd, ticket)
		})
	}
	p, err := try(self.Path)
	var failed *launcher.StartError
	if errors.As(err, &failed) && (failed.Missing || failed.Differs) {
		if err = m.copySelf(ctx, n, self, failed); err == nil {
			p, err = try("")
		}
	}
	if err != nil {
		return nil, explain(m.command[0], n, err)
	}
	return p, nil
}

// login is the command that runs a script on a node.
func (m *Manager) login(n launcher.Node, options []string, script string, args ...string) (*exec.Cmd, error) {
	host := n.Addr
	if host == "" {
		host = n.Name
	}
	for _, s := range []string{host, n.User} { // whatever checked them before: it would be an option of ssh
		if strings.HasPrefix(s, "-") {
			return nil, fmt.Errorf("%q cannot be the name of a host or user", s)
		}
	}
	if host == "" {
		return nil, errors.New("a node needs a name")
	}
	// Of an option given twice ssh takes the first: the user's go before ours.
	argv := append([]string{}, m.command[1:]...)
	argv = append(argv, options...)
	argv = append(argv, "-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=30")
	if n.User != "" {
		argv = append(argv, "-l", n.User)
	}
	words := []string{"/bin/sh", "-c", quote(script), "gorun"}
	for _, a := range args {
		words = append(words, quote(a))
	}
	return exec.Command(m.command[0], append(argv, "--", host, strings.Join(words, " "))...), nil
}

// copySelf copies the gorun that runs to a node, unless that is of another kind.
func (m *Manager) copySelf(ctx context.Context, n launcher.Node, self launcher.Executable, there *launcher.StartError) error {
	if there.Missing && !sameMachine(there.There) {
		return fmt.Errorf("it is another kind of machine (%s) than this one (%s): all nodes of a job must be of one kind", there.There, here)
	}
	cmd, err := m.login(n, nil, stage, self.Digest, fmt.Sprint(self.Size))
	if err != nil {
		return err
	}
	f, err := launcher.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = f, &said
	if err := launcher.Client(ctx, cmd); err != nil {
		return fmt.Errorf("gorun is not there and could not be copied there: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// again tries once more where a busy sshd has refused a login.
func again(ctx context.Context, try func() (launcher.Process, error)) (launcher.Process, error) {
	p, err := try()
	var failed *launcher.StartError
	if !errors.As(err, &failed) || !busy(failed.Said) || ctx.Err() != nil {
		return p, err
	}
	select {
	case <-time.After(500*time.Millisecond + rand.N(2*time.Second)): // others were refused with it
	case <-ctx.Done():
		return nil, err
	}
	return try()
}

// quote makes one word of any shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// split splits a command into words: at blanks, but not within ' or ".
func split(s string) (words []string, err error) {
	var word strings.Builder
	in, inside := false, rune(0)
	for _, r := range s {
		switch {
		case inside != 0 && r == inside:
			inside = 0
		case inside == 0 && (r == '\'' || r == '"'):
			in, inside = true, r
		case inside == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if in {
				words = append(words, word.String())
			}
			in = false
			word.Reset()
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if inside != 0 {
		return nil, fmt.Errorf("a %c that is not closed", inside)
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
