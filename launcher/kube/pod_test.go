package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/rendezvous"
	"github.com/gorun-mpi/gorun/launcher"
)

const key = "0123456789abcdef0123456789abcdef"

// env is a pod's environment with changes: NAME=VALUE.
func env(t *testing.T, changes ...string) func(string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"JOB_COMPLETION_INDEX": "2", "GORUN_HEAD": "heat-0.mesh", "GORUN_NODES": "4", "GORUN_TOKEN_FILE": file}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		all[name] = value
	}
	return func(name string) string { return all[name] }
}

func TestFromEnv(t *testing.T) {
	p, err := FromEnv(env(t, "GORUN_SLOTS=8"))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Hosts()); got != "[heat-0:8 heat-1:8 heat-2:8 heat-3:8]" {
		t.Error(got)
	}
	ticket, err := p.Ticket()
	if err != nil || fmt.Sprint(ticket.Addresses) != "[heat-0.mesh:7770]" || ticket.Node != 2 || ticket.Agent != rendezvous.Keeper || ticket.Life != 0 {
		t.Errorf("%v, %v", ticket, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb, p); strings.Contains(s, key) || strings.Contains(s, fmt.Sprint([]byte(key[:4]))[1:10]) || !strings.Contains(s, "pod 2 of 4") {
			t.Errorf("%s: %s", verb, s)
		}
	}
	if p, err = FromEnv(env(t, "GORUN_HEAD=heat-0.mesh:99")); err != nil || p.Port != 99 || p.Head != "heat-0.mesh" || p.Hosts()[1].SlotsGiven {
		t.Errorf("%v, %v", p, err)
	}
	if p, err = FromEnv(env(t, "GORUN_TOKEN_FILE=", "GORUN_TOKEN="+key)); err != nil || p.Source != "the environment, GORUN_TOKEN" {
		t.Errorf("%v, %v", p, err)
	}
	if p, err = FromEnv(env(t, "GORUN_HEAD=")); p != nil || err != nil {
		t.Errorf("a pod of its own: %v, %v", p, err)
	}
}

func TestFromEnvRefuses(t *testing.T) {
	for _, c := range []struct {
		change, say string
		want        error
	}{
		{"GORUN_HEAD=heat-1.mesh", "the head is the pod of index 0", ErrPod},
		{"GORUN_HEAD=heat-0.mesh:x", "port", ErrPod},
		{"GORUN_NODES=", "GORUN_NODES is not set", ErrPod},
		{"GORUN_NODES=0", "a number from 1", ErrPod},
		{"GORUN_SLOTS=many", "GORUN_SLOTS", ErrPod},
		{"JOB_COMPLETION_INDEX=4", "from 0 to 3", ErrPod},
		{"JOB_COMPLETION_INDEX=", "JOB_COMPLETION_INDEX is not set", ErrPod},
		{"GORUN_TOKEN_FILE=", "GORUN_TOKEN_FILE", ErrSecret},
		{"GORUN_TOKEN_FILE=/none/such", "no such file", ErrSecret},
		{"GORUN_TOKEN=" + key, "two", ErrSecret},
	} {
		if _, err := FromEnv(env(t, c.change)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", c.change, err)
		}
	}
	if _, err := FromEnv(env(t, "GORUN_TOKEN_FILE=", "GORUN_TOKEN=short")); !errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), "has 5") {
		t.Errorf("short: %v", err)
	}
}

// Two pods that share a Secret meet; one with another does not.
func TestMeet(t *testing.T) {
	head, err := FromEnv(env(t, "JOB_COMPLETION_INDEX=0"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := head.Home()
	cfg.Port = 0 // any, in a test
	h, err := rendezvous.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, c := range []struct {
		change string
		want   error
	}{{"GORUN_SLOTS=1", nil}, {"GORUN_HEAD=other-0.mesh", rendezvous.ErrStranger}, {"GORUN_TOKEN=" + strings.Repeat("x", 32), rendezvous.ErrStranger}} {
		changes := []string{c.change}
		if strings.HasPrefix(c.change, "GORUN_TOKEN=") {
			changes = append(changes, "GORUN_TOKEN_FILE=")
		}
		p, err := FromEnv(env(t, changes...))
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := p.Ticket()
		if err != nil {
			t.Fatal(err)
		}
		ticket.Addresses = h.Addresses()[1:2] // the first is the pod's name
		s, err := rendezvous.Call(context.Background(), ticket)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.change, err)
		}
		if err != nil {
			continue
		}
		s.Close()
		caller, s, err := h.Accept()
		if err != nil || caller.Node != 2 || caller.Agent != rendezvous.Keeper {
			t.Errorf("%+v, %v", caller, err)
		}
		s.Close()
	}
}

// The head starts nothing, and waits for what comes.
func TestManager(t *testing.T) {
	var m launcher.Manager = Manager{}
	p, err := m.Start(context.Background(), launcher.Node{}, nil)
	if err != nil || m.Name() != "kube" {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill()
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
