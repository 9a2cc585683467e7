package ssh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/launcher"
	"github.com/gorun-mpi/gorun/launcher/internal/clienttest"
)

func TestMain(m *testing.M) { clienttest.Main(m) }

// fake returns a manager whose ssh is a script. It has the options before -- in $options, the host in $1 and the
// command in $2.
func fake(t *testing.T, script string) (m *Manager, dir string) {
	t.Helper()
	dir = clienttest.Fake(t, "ssh", "--", "shift\n"+script)
	m, err := New(filepath.Join(dir, "ssh"))
	if err != nil {
		t.Fatal(err)
	}
	return m, dir
}

// faked is fake as clienttest wants it.
func faked(t *testing.T) func(script string) (launcher.Manager, string) {
	return func(script string) (launcher.Manager, string) { return fake(t, script) }
}

func TestStart(t *testing.T) {
	clienttest.CheckStart(t, faked(t), `exec sh -c "$2"`, "-T -x -o BatchMode=yes")
}

// A gorun that is not there, or is another, is copied, once. A copy that was cut short is made anew.
func TestCopied(t *testing.T) {
	self, err := launcher.Self()
	if err != nil {
		t.Fatal(err)
	}
	for name, hide := range map[string]string{
		"missing": "/nowhere/gorun",
		"differs": "$HOME/other", // a script that is a keeper of another release
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := fake(t, `echo login >>$HOME/logins; exec sh -c "$(printf %s "$2" | sed "s,`+self.Path+`,`+hide+`,")"`)
			other := "#!/bin/sh\necho; echo '" + launcher.KeeperDiffers + "version 0'\nexit\n"
			other += strings.Repeat("#", int(self.Size)-len(other)) // of the size of this one
			if err := os.WriteFile(filepath.Join(dir, "other"), []byte(other), 0o700); err != nil {
				t.Fatal(err)
			}
			copied := filepath.Join(dir, ".cache/gorun/bin", self.Digest, "gorun")
			for round, logins := range []int{3, 4, 7} {
				if name == "differs" && round == 1 {
					break // the other is found first again
				}
				if round == 2 {
					if err := os.Truncate(copied, 100_000); err != nil {
						t.Fatal(err)
					}
				}
				said, err := clienttest.Start(t, m, "b")
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(said, "path "+copied) {
					t.Errorf("the keeper says %q, not that it is %s", said, copied)
				}
				if n := strings.Count(clienttest.Read(t, dir, "logins"), "login"); n != logins {
					t.Errorf("round %d: %d logins, want %d", round, n, logins)
				}
			}
			files, err := filepath.Glob(filepath.Join(dir, ".cache/gorun/bin/*/*"))
			if err != nil || len(files) != 1 {
				t.Errorf("left are %v, %v", files, err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	clienttest.CheckRefused(t, faked(t), map[string]string{
		`echo 'ssh: Could not resolve hostname n2: Name or service not known' >&2; exit 255`:                                             "no host of that name",
		`echo 'ssh: connect to host n2 port 22: Connection refused' >&2; exit 255`:                                                       "is its sshd running",
		`echo 'root@n2: Permission denied (publickey).' >&2; exit 255`:                                                                   "ssh-copy-id n2",
		`echo 'Host key verification failed.' >&2; exit 255`:                                                                             "not known here",
		`printf '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\na\nb\nc\nd\ne\nf\nHost key verification failed.\n' >&2; exit 255`: "ssh-keygen -R n2",
		`echo 'sh: cannot execute binary file: Exec format error' >&2; exit 126`:                                                         "another kind of machine",
		`echo; echo 'gorun keeper: missing: Linux riscv128'`:                                                                             "riscv128",
		`echo 'full disk' >&2; case "$2" in *umask*) exit 1;; *) echo; echo "gorun keeper: missing: $(uname -sm)";; esac`:                "full disk",
		`echo 'Have a nice day'`:               "Have a nice day",
		`while :; do echo noise; done`:         "printed 64 KB",
		`echo 'what is this' >&2; exit 3`:      "exit status 3; it said: what is this",
		`kill -9 $$`:                           "signal: killed",
		`echo x >>$HOME/tries; ` + refuseLogin: "MaxStartups",
	})
}

const refuseLogin = `echo 'kex_exchange_identification: read: Connection reset by peer' >&2; exit 255`

// A login that a busy sshd has dropped is tried once more.
func TestAgain(t *testing.T) {
	m, _ := fake(t, `[ -e $HOME/tried ] || { touch $HOME/tried; `+refuseLogin+`; }; exec sh -c "$2"`)
	if _, err := clienttest.Start(t, m, "b"); err != nil {
		t.Fatal(err)
	}
}

func TestTunnel(t *testing.T) {
	m, dir := fake(t, `echo "$options" >$HOME/options; echo 'Allocated port 4711 for remote forward to 127.0.0.1:99' >&2; exec sh -c "$2"`)
	p, err := m.StartThrough(t.Context(), launcher.Node{Name: "b"}, 99, func(port int) []byte { return fmt.Append(nil, "port ", port) })
	if err != nil {
		t.Fatal(err)
	}
	if said := p.Wait().Error(); !strings.Contains(said, `ticket "port 4711\n"`) {
		t.Error(said)
	}
	if text := clienttest.Read(t, dir, "options"); !strings.Contains(text, "-R 0:127.0.0.1:99") {
		t.Errorf("options are %s", text)
	}
}

func TestCancelled(t *testing.T) {
	m, _ := fake(t, `exec sleep 1000`)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	if _, err := m.Start(ctx, launcher.Node{Name: "b"}, nil); !errors.Is(err, why) {
		t.Errorf("it says %v", err)
	}
}

func TestNamesOfOptions(t *testing.T) {
	clienttest.CheckNames(t, faked(t), launcher.Node{Name: "-oProxyCommand=x"}, launcher.Node{Name: "b", Addr: "-x"}, launcher.Node{Name: "b", User: "-x"},
		launcher.Node{})
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		"": nil, "ssh": {"ssh"}, " ssh  -p 2222 ": {"ssh", "-p", "2222"},
		`ssh -o "ProxyCommand=nc -X 5 %h %p" ''`: {"ssh", "-o", "ProxyCommand=nc -X 5 %h %p", ""},
		`a'b "c'd`:                               {`ab "cd`},
	} {
		if got, err := split(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := New(`ssh 'x`); err == nil {
		t.Error("an open quote was taken")
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`ssh -o "a b" 'c'`)
	f.Fuzz(func(t *testing.T, s string) {
		words, err := split(s)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range words {
			if strings.Contains(w, "'") {
				return
			}
			quoted = append(quoted, "'"+w+"'")
		}
		if again, err := split(strings.Join(quoted, " ")); err != nil || !slices.Equal(again, words) {
			t.Errorf("%q: %q, then %q, %v", s, words, again, err)
		}
	})
}

// What another command than ssh has done is not said to be ssh's.
func TestOtherCommand(t *testing.T) {
	m, err := New("/bin/false -p 'a b'")
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Start(t.Context(), launcher.Node{Name: "b"}, nil)
	if want := "/bin/false -p a b b: exit status 1"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}
