// Package ssh starts keepers by ssh: one login to each node, which stays as long as the keeper does.
//
//	ssh -T -x -o BatchMode=yes -o ConnectTimeout=30 -- b /bin/sh -c 'SCRIPT' gorun PATH DIGEST
//
// No terminal is asked for, no X11 and no question: a login that would ask for a password fails. The
// script runs gorun, which is copied to the node if it is not there (launcher.Remote).
//
// Nothing of gorun's is on a command line but digests, and nothing in the environment: the ticket
// goes over standard input. ssh's own configuration counts (~/.ssh/config), and so do its keys and
// agent. -ssh names another command, with options: -ssh "ssh -p 2222".
//
// Where a node cannot call the head, as behind a firewall, the login brings a port there that leads to it (ssh -R).
//
// A login to a busy node may be refused by its sshd (MaxStartups). It is tried once more.
package ssh

import (
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
	p, err := launcher.Remote(ctx, func(script string, args ...string) (launcher.Process, error) {
		return again(ctx, func() (launcher.Process, error) {
			cmd, err := m.login(n, options, script, args...)
			if err != nil {
				return nil, err
			}
			return launcher.ExecAsking(ctx, cmd, ticket)
		})
	}, func(script string, args ...string) (*exec.Cmd, error) { return m.login(n, nil, script, args...) })
	if err != nil {
		return nil, explain(m.command, n, err)
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
