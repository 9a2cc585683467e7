package kube

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The user is told why there is no answer after ten seconds, then once a minute.
func TestWaitSays(t *testing.T) {
	began := time.Now()
	now := began
	var said []string
	w := newWait(func(format string, args ...any) {
		said = append(said, fmt.Sprintf("%v: ", now.Sub(began))+fmt.Sprintf(format, args...))
	})
	w.now = func() time.Time { return now }
	w.next = began.Add(sayFirst)
	for range 75 {
		now = now.Add(2 * time.Second)
		w.failed(ErrPod)
	}
	why := ": no answer yet: " + ErrPod.Error()
	if got, want := strings.Join(said, "\n"), "10s"+why+"\n1m10s"+why+"\n2m10s"+why; got != want {
		t.Errorf("said:\n%s", got)
	}
}

// The manifest of the documentation makes pods as FromEnv wants them.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	for _, m := range regexp.MustCompile(`\{name: (GORUN_\w+), value: "?([^"}]*)"?\}`).FindAllSubmatch(text, -1) {
		if name := string(m[1]); name != "GORUN_TOKEN_FILE" {
			changes = append(changes, name+"="+string(m[2]))
		}
	}
	p, err := FromEnv(env(t, append(changes, "GORUN_NODES=")...))
	if err == nil {
		t.Fatal("GORUN_NODES is not needed")
	}
	if p, err = FromEnv(env(t, changes...)); err != nil {
		t.Fatal(err)
	}
	completions := regexp.MustCompile(`completions: (\d+)`).FindSubmatch(text)
	if completions == nil || string(completions[1]) != fmt.Sprint(p.Nodes) || p.Name(0) != "heat-0" || !strings.Contains(string(text), "subdomain: heat ") {
		t.Errorf("%v of %v: %s", p, changes, completions)
	}
}
