package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"github.com/gorun-mpi/gorun/cr/mirror"
	"github.com/gorun-mpi/gorun/cr/mirror/tcpworld"
)

// What members are told in their environment.
const (
	envAddr   = "STENCIL_COORDINATOR"
	envSecret = "STENCIL_SECRET"
	envNode   = "STENCIL_NODE"
)

// asLauncher coordinates, and starts members as processes of its own.
func asLauncher(o options) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	secret := make([]byte, 16)
	rand.Read(secret)
	var members []*exec.Cmd
	defer func() {
		for _, m := range members {
			m.Wait() // one that was killed is no failure: the coordinator knows better
		}
	}()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for i := range o.tcp + o.spares {
		m := exec.Command(os.Args[0], os.Args[1:]...)
		m.Env = append(os.Environ(), envAddr+"="+ln.Addr().String(), envSecret+"="+hex.EncodeToString(secret), fmt.Sprintf("%s=node%d", envNode, i))
		m.Stdout, m.Stderr = os.Stdout, os.Stderr
		if err := m.Start(); err != nil {
			stop() // those that were started
			ln.Close()
			return err
		}
		members = append(members, m)
	}
	return tcpworld.Coordinate(ctx, ln, tcpworld.Config{Ranks: o.tcp, Secret: secret, Wait: o.wait, Grace: time.Second})
}

// asMember runs as a member, with a rank or as a spare.
func asMember(o options) error {
	secret, err := hex.DecodeString(os.Getenv(envSecret))
	if err != nil {
		return err
	}
	t, err := tcpworld.Join(context.Background(), os.Getenv(envAddr), tcpworld.Options{Secret: secret, Node: os.Getenv(envNode)})
	if err != nil {
		return err
	}
	world := mirror.New(t)
	defer world.Close()
	return mirror.Run(world, func(ctx context.Context) error { return stencil(ctx, world, tcp{t, world}, o, os.Stdout) })
}

// tcp is messages over a world of its own.
type tcp struct {
	*tcpworld.World
	world *mirror.World
}

func (t tcp) place() (int, int) { return t.world.Rank(), t.world.Size() }

func (t tcp) shift(ctx context.Context, to int, send []uint32, from int, recv []uint32, tag int) error {
	if rank, _ := t.place(); to == rank {
		copy(recv, send)
		return nil
	}
	if err := t.Send(ctx, to, tag, memory(send)); err != nil {
		return err
	}
	b, err := t.Recv(ctx, from, tag)
	if err == nil && copy(memory(recv), b) < 4*len(recv) {
		err = errors.New("a short message")
	}
	return err
}

// memory is numbers as bytes, in the order of this machine: all processes are on one.
func memory(v []uint32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v)) }

const tagSum = 2

func (t tcp) sum(ctx context.Context, v uint64) (uint64, error) {
	rank, size := t.place()
	if rank > 0 {
		return 0, t.Send(ctx, 0, tagSum, binary.BigEndian.AppendUint64(nil, v))
	}
	for from := 1; from < size; from++ {
		b, err := t.Recv(ctx, from, tagSum)
		if err != nil {
			return 0, err
		}
		if len(b) != 8 {
			return 0, errors.New("a short message")
		}
		v += binary.BigEndian.Uint64(b)
	}
	return v, nil
}
