package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/internal/storage/protect"
)

// kept says where the images of a storm are.
type kept struct {
	local  bool   // on the disks of the nodes that wrote them
	policy string // in the memory of the nodes, by this policy
	copied bool   // and now and then copied to the folder that all nodes see
}

// policies are those that storms have.
var policies = []string{"ring", "code:2+1", "pairs", "ring:2", "rack", "code:2+2"}

// keeps says how the job with a number has its images made, and where. If memory, every other job has them in the memory of the nodes.
func keeps(number int, memory bool) (cr string, k kept) {
	turn := number
	if memory {
		turn /= 2
	}
	kind := turn
	if memory && number%2 == 1 {
		round := turn / len(policies)
		k = kept{policy: policies[turn%len(policies)], copied: (turn+round/2)%2 == 0}
		kind += round
	} else {
		k.local = turn%4 > 1
	}
	return []string{"self", "native"}[kind%2], k
}

func (k kept) String() string {
	switch {
	case k.local:
		return "images on the nodes"
	case k.policy != "":
		return fmt.Sprintf("images in memory, %s, copied to a folder: %v", k.policy, k.copied)
	}
	return "images in a folder"
}

// every is the job's -ckpt-every.
func (k kept) every() string {
	if k.copied {
		return "mem=100ms,dir=400ms"
	}
	return "100ms"
}

// flags are the job's others.
func (k kept) flags(s *storm) []string {
	switch {
	case k.local:
		return []string{"-ckpt-local", filepath.Join(s.c.Local(), filepath.Base(s.snaps), "%n")}
	case k.policy == "rack":
		racks := s.snaps + "-racks"
		if err := os.WriteFile(racks, []byte("n1 n3 n5 n7 odd\nn2 n4 n6 n8 even\n"), 0o644); err != nil {
			s.c.t.Fatal(err)
		}
		return []string{"-ckpt-mirror", k.policy, "-racks", racks}
	case k.policy != "":
		return []string{"-ckpt-mirror", k.policy}
	}
	return nil
}

var named = regexp.MustCompile(`\bn\d\b`)

// broken says how a gorun has broken what its policy promises, by what it has said; "" if it has not. It may go back to the start if more nodes
// were lost, or do not answer, than it promises since the last but one snapshot that had all copies: the last may have been told of when it was not whole yet.
func (k kept) broken(said string) string {
	if k.policy == "" {
		return ""
	}
	policy, err := protect.Parse(k.policy)
	if err != nil {
		return err.Error()
	}
	whole, degraded := 0, false // snapshots with all copies, one after the other
	before, since := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(said) {
		switch {
		case strings.Contains(line, "checkpoint: committed"):
			if !degraded {
				whole++
				before, since = since, map[string]bool{}
			}
		case strings.Contains(line, "degraded: "):
			whole, degraded = 0, true
		case strings.Contains(line, "has all copies again"):
			degraded = false
		case strings.Contains(line, "restarting from the start"):
			if n := len(before) + len(since); whole > 1 && n <= policy.Promise().Nodes {
				return fmt.Sprintf("policy %s promises to survive %v, %d were, and the job began anew", k.policy, policy.Promise(), n)
			}
			whole = 0
		case givenUp.MatchString(line), strings.Contains(line, "does not answer"):
			for _, n := range named.FindAllString(line, -1) {
				since[n] = true
			}
		}
	}
	return ""
}

// The test of promises finds broken ones.
func TestBroken(t *testing.T) {
	const commit, anew = "checkpoint: committed\n", "restarting from the start\n"
	k := kept{policy: "ring:2"}
	for said, want := range map[string]bool{
		commit + commit + "node n2 is lost: why\n" + anew:                                                    true,
		commit + commit + "node n2 is lost: why\nnode n3 is lost: why\n" + anew:                              true,
		commit + commit + "node n2 is lost: why\nnode n3 is lost\na node does not answer: n4\n" + anew:       false,
		commit + "node n2 is lost: why\n" + anew:                                                             false,
		commit + commit + "degraded: snapshot 2\n" + commit + "node n2 is lost: why\n" + anew:                false,
		commit + commit + "node n2 is lost: why\nrestarting from snapshot 2\n":                               false,
		"node n2 is lost\nnode n3 is lost\nnode n4 is lost\n" + commit + commit + "node n5 is lost\n" + anew: true,
	} {
		if got := k.broken(said); (got != "") != want {
			t.Errorf("%q of\n%s", got, said)
		}
	}
	if got := (kept{}).broken(commit + commit + anew); got != "" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for i := range 4 * 2 * len(policies) {
		cr, k := keeps(i, true)
		seen[fmt.Sprint(cr, k)] = true
	}
	if want := 2*len(policies)*2 + 4; len(seen) != want {
		t.Errorf("%d ways to keep images, want %d: %v", len(seen), want, seen)
	}
}
