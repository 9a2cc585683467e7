package provider_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gorun-mpi/gorun/rpi/rdma/provider"
)

type named struct {
	provider.Provider
	name string
	why  error
}

func (n named) Name() string                   { return n.name }
func (n named) List() ([]provider.Info, error) { return nil, n.why }

func TestRegistry(t *testing.T) {
	provider.Register(named{name: "test-second"}, 1001)
	provider.Register(named{name: "test-first"}, 1000)
	provider.Register(named{name: "test-second", why: errors.New("newer")}, 1002)
	var names []string
	for _, p := range provider.All() {
		if p.Name() == "test-first" || p.Name() == "test-second" {
			names = append(names, p.Name())
		}
	}
	if fmt.Sprint(names) != "[test-first test-second]" {
		t.Error(names)
	}
	p, ok := provider.Lookup("test-second")
	if !ok {
		t.Fatal("not found")
	}
	if _, err := p.List(); err == nil {
		t.Error("the first registration is still there")
	}
	if _, ok := provider.Lookup("test-none"); ok {
		t.Error("found what nobody has registered")
	}
}

func ExampleStatus_Err() {
	var se *provider.StatusError
	err := provider.RetryExceeded.Err()
	fmt.Println(err, errors.As(err, &se) && se.Status == provider.RetryExceeded)
	fmt.Println(provider.Success.Err())
	// Output:
	// rdma: the peer does not answer true
	// <nil>
}

func ExampleSendRequest_Bytes() {
	r := provider.SendRequest{Opcode: provider.Send, Segments: []provider.Segment{{Data: make([]byte, 64)}, {Data: make([]byte, 4096)}}}
	fmt.Println(r.Opcode, r.Bytes())
	// Output: send 4160
}
