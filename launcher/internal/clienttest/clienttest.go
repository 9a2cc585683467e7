// Package clienttest stands in for the clients that start keepers, such as ssh and srun, and for the keepers: for
// tests of managers.
package clienttest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/launcher"
)

// ticket is what keepers are given.
const ticket = "the ticket"

// Main makes a test a gorun. As a keeper it says so, and then what it was given; with another digest than its own
// it says what it is.
func Main(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != launcher.KeeperVerb {
		os.Exit(m.Run())
	}
	self, err := launcher.Self()
	if err != nil || len(os.Args) != 3 || self.Digest != os.Args[2] {
		fmt.Println("\n" + launcher.KeeperDiffers + "digest " + self.Digest)
		os.Exit(1)
	}
	fmt.Println("\n" + launcher.KeeperReady)
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Fprintf(os.Stderr, "ticket %q, path %s", line, self.Path)
	os.Exit(0)
}

// Fake writes a client, a script, and returns its folder, which is the script's home. Of its arguments those before
// the word are in $options, and the rest, from the word on, are $1 and so on.
func Fake(t *testing.T, name, word, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	text := "#!/bin/sh\nexport HOME=" + dir + "\nunset XDG_CACHE_HOME\n" +
		"while [ \"$1\" != " + word + " ]; do options=\"$options $1\"; shift; done\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Start starts a keeper and returns what it said.
func Start(t *testing.T, m launcher.Manager, node string) (string, error) {
	t.Helper()
	p, err := m.Start(t.Context(), launcher.Node{Name: node}, []byte(ticket))
	if err != nil {
		return "", err
	}
	return p.Wait().Error(), nil
}

// CheckStart starts a keeper by a client that notes its arguments, options and environment before
// it goes on with rest, and checks that the keeper gets the ticket, that no other process can read
// it, and which options the client gets.
func CheckStart(t *testing.T, fake func(script string) (m launcher.Manager, dir string), rest, options string) (dir string) {
	t.Helper()
	m, dir := fake(`echo "$options" >$HOME/options; echo "$*" >$HOME/args; env >$HOME/env; echo Welcome; echo oops >&2; ` + rest)
	said, err := Start(t, m, "n2")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said, fmt.Sprintf("ticket %q, path /", ticket+"\n")) {
		t.Errorf("the keeper says %q", said)
	}
	for _, f := range []string{"args", "env", "options"} {
		if strings.Contains(Read(t, dir, f), ticket) {
			t.Errorf("the ticket is in the %s", f)
		}
	}
	if got := Read(t, dir, "options"); !strings.Contains(got, options) {
		t.Errorf("options are %s", got)
	}
	return dir
}

// CheckRefused checks what a manager says of clients that start no keeper: a part of it for each script.
func CheckRefused(t *testing.T, fake func(script string) (m launcher.Manager, dir string), says map[string]string) {
	t.Helper()
	for script, want := range says {
		m, _ := fake(script)
		if said, err := Start(t, m, "n2"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", script, said, err, want)
		}
	}
}

// CheckNames checks that a manager runs no client for nodes whose names could be options or several nodes.
func CheckNames(t *testing.T, fake func(script string) (m launcher.Manager, dir string), nodes ...launcher.Node) {
	t.Helper()
	m, dir := fake(`touch $HOME/ran`)
	for _, n := range nodes {
		if _, err := m.Start(t.Context(), n, nil); err == nil {
			t.Errorf("%+v was taken", n)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the client was run")
	}
}

// Read returns what a client has written to a file of its home.
func Read(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
