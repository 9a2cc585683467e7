package rpi_test

import (
	"testing"

	"github.com/gorun-mpi/gorun/internal/testing/moduletest"
)

// The example is a complete transport: engines over it pass the tests of the transports that ship.

func buildPost(int) *post { return newPost() }

func TestExampleKinds(t *testing.T) { moduletest.Kinds(t, buildPost) }

func TestExampleCheckpoints(t *testing.T) { moduletest.Checkpoints(t, buildPost, nil) }

func TestExampleComesBack(t *testing.T) {
	petrify := func(m *post) { m.boxes, m.peers = nil, nil }
	moduletest.ComeBack(t, buildPost, petrify, moduletest.Options{}, nil)
}

func TestExampleWakes(t *testing.T) {
	m := newPost()
	moduletest.WaitAndWake(t, m, func() { m.Wait(-1) })
}
