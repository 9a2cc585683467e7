package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun-mpi/gorun/internal/job/hosts"
	"github.com/gorun-mpi/gorun/internal/protocol/lease"
)

// Nodes that join a running job: nodes that were given up and are back, and new ones.
//
//	join b                          b is lost: wait until it is fenced
//	  b: a node without a past ---> starting, checked as at the start ---> up, without ranks
//
// A node that has joined is a spare. A life that is under way does not change. The next one uses it
// for ranks of lost nodes, and for those that -shrink-to-fit has put on other nodes in its absence.

// Join brings nodes up: those that the job has under the given names, and more. Without either
// these are all nodes that the job has and cannot use. It returns when each is up or found
// unusable. Meanwhile tell gets the progress, one line at a time; it must not block. The error
// names the unusable nodes.
func (f *Fleet) Join(names []string, more []hosts.Node, tell func(text string)) error {
	which, err := f.admit(names, more)
	if err != nil {
		return err
	}
	defer f.joins.Done()
	ctx, cancel := f.whileOpen()
	defer cancel()
	if len(which) == 0 {
		tell("all nodes of the job are up")
		return nil
	}
	errs := make([]error, len(which))
	var wait sync.WaitGroup
	for k, i := range which {
		wait.Go(func() { errs[k] = f.join(ctx, i, tell) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// admit finds the nodes that are to join, and reserves them for this call. It counts in f.joins
// unless it returns an error.
func (f *Fleet) admit(names []string, more []hosts.Node) (which []int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closing():
		return nil, errClosed
	case f.awaited != nil:
		return nil, errors.New("the pods of a Kubernetes Job join by themselves when they are there again")
	case f.placed == nil:
		return nil, errors.New("the nodes of the job are still being brought up: try again when its ranks start")
	}
	at := func(name string) int {
		return slices.IndexFunc(f.nodes, func(n *node) bool { return n.Name == name })
	}
	for _, name := range names {
		i := at(name)
		if i < 0 {
			return nil, fmt.Errorf("%s is no node of the job, which has %s: a new one joins with -hosts %s", name, strings.Join(f.names(), ", "), name)
		}
		which = append(which, i)
	}
	for _, m := range more {
		if i := at(m.Name); i >= 0 {
			which = append(which, i)
		}
	}
	if len(names)+len(more) == 0 {
		for i, n := range f.nodes {
			if !n.usable() && n.state != starting && !n.joining {
				which = append(which, i)
			}
		}
	}
	for _, i := range which {
		if n := f.nodes[i]; n.joining || n.state == starting {
			return nil, fmt.Errorf("node %s is being brought up already", n.Name)
		}
	}
	for _, m := range more {
		if i := at(m.Name); i >= 0 {
			if n := f.nodes[i]; !n.usable() {
				n.Node = m
			}
			continue
		}
		n := newNode(f, len(f.nodes), m)
		n.fail(errors.New("it has not joined yet"))
		which = append(which, n.number)
		f.nodes = append(f.nodes, n)
		f.placed = append(slices.Clone(f.placed), nil)
	}
	slices.Sort(which)
	which = slices.Compact(which)
	for _, i := range which {
		f.nodes[i].joining = true
	}
	f.joins.Add(1)
	return which, nil
}

// join makes one node join.
func (f *Fleet) join(ctx context.Context, i int, tell func(string)) (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[i]
	name := n.Name
	defer func() {
		if f.nodes[i].joining = false; err != nil {
			err = fmt.Errorf("node %s: %w", name, err)
		}
	}()
	switch {
	case n.usable():
		tell(fmt.Sprintf("node %s is up already", name))
		return nil
	case n.state == up || n.state == suspect: // it was left out
		if err := n.twin(n.info); err != nil {
			return err
		}
		n.out, n.err = false, nil
		if err := f.sees(ctx, n); err != nil {
			return err
		}
	default:
		if n, err = f.again(ctx, n, tell); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("has joined: %d CPUs, a spare", n.info.CPUs)
	n.say(false, "%s", text)
	tell(fmt.Sprintf("node %s %s", name, text))
	return nil
}

// again brings up a node that was given up, when nothing of it can act any more. It is called with
// f.mu held, and releases it meanwhile.
func (f *Fleet) again(ctx context.Context, old *node, tell func(string)) (*node, error) {
	if old.state == lost {
		wait := time.Duration(max(old.granter.FencedAt()-lease.Now(), 0)) * time.Millisecond
		tell(fmt.Sprintf("node %s: waiting until what ran there has certainly ended: %v at most", old.Name, wait.Round(time.Second/10)))
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-old.fenced:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f.mu.Lock()
	n := newNode(f, old.number, old.Node)
	n.joining, n.joined = true, old.joined+1
	f.nodes[old.number] = n
	f.mu.Unlock()
	f.joins.Go(func() { old.dismiss() }) // the process that has started its last keeper
	ctx, cancel := f.patient(ctx)
	defer cancel()
	f.bring(ctx, n.number)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !n.usable() {
		return nil, n.err
	}
	return n, f.sees(ctx, n)
}

// sees says whether a node sees the folder that all must share. It is called with f.mu held, and
// releases it meanwhile.
func (f *Fleet) sees(ctx context.Context, n *node) error {
	if n.own {
		return nil
	}
	f.mu.Unlock()
	f.see(ctx, []*node{n})
	f.mu.Lock()
	if !n.usable() {
		return n.err
	}
	return nil
}
