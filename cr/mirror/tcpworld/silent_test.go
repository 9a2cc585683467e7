package tcpworld

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorun-mpi/gorun/cr/mirror"
)

var secret = []byte("of this test")

// A member that stands still is lost as surely as one whose connection ends.
func TestSilence(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		over <- Coordinate(t.Context(), ln, Config{Ranks: 1, Secret: secret, Silence: 3 * time.Second, Wait: time.Minute})
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := greet(c, secret, true); err != nil {
		t.Fatal(err)
	}
	if err := writeNote(c, note{Hello: &place{Node: "still"}}); err != nil {
		t.Fatal(err)
	}
	for { // until it has rank 0; from then on it says nothing
		n, err := readNote(c)
		if err != nil {
			t.Fatal(err)
		}
		if n.View != nil {
			break
		}
	}
	tcp, err := Join(t.Context(), ln.Addr().String(), Options{Secret: secret, Node: "spare"})
	if err != nil {
		t.Fatal(err)
	}
	world := mirror.New(tcp)
	defer world.Close()
	lives := 0
	err = mirror.Run(world, func(context.Context) error {
		lives = world.Life()
		return nil
	})
	if err != nil || lives != 2 {
		t.Errorf("Run: %v, in life %d", err, lives)
	}
	world.Close()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// Who does not know the secret is no member, and no member is made to believe a stranger.
func TestSecret(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- Coordinate(ctx, ln, Config{Ranks: 1, Secret: secret}) }()
	if _, err := Join(ctx, ln.Addr().String(), Options{Secret: []byte("guessed")}); !errors.Is(err, errSecret) {
		t.Errorf("Join with a wrong secret: %v", err)
	}
	stop()
	if err := <-over; err == nil || !strings.Contains(err.Error(), "told to end") {
		t.Errorf("Coordinate: %v", err)
	}
}
