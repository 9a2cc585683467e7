package jobtest_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun-mpi/gorun/internal/rank/coll"
	"github.com/gorun-mpi/gorun/internal/rank/job"
	"github.com/gorun-mpi/gorun/internal/testing/jobtest"
	"github.com/gorun-mpi/gorun/internal/testing/testenv"
	"github.com/gorun-mpi/gorun/internal/testing/world"
	"github.com/gorun-mpi/gorun/mpi"
)

// ranks runs f as every rank of the cluster, Finalize included. Its caller learns of the first error
// at once: the other ranks may wait for the failed one for ever.
func ranks(c *jobtest.Cluster, f func(*mpi.Comm) error) (wait func() error) {
	all := newGroup()
	for i, j := range c.Jobs {
		all.Go(func() error {
			if err := world.Rank(j, f); err != nil {
				return fmt.Errorf("rank %d: %w", i, err)
			}
			return nil
		})
	}
	return sync.OnceValue(all.Wait)
}

// group is goroutines that wait for each other.
type group struct {
	running sync.WaitGroup
	failed  chan error
}

func newGroup() *group { return &group{failed: make(chan error, 1)} }

// Go starts one of them.
func (g *group) Go(f func() error) {
	g.running.Go(func() {
		if err := f(); err != nil {
			select {
			case g.failed <- err:
			default: // it is not the first
			}
		}
	})
}

// Wait returns the first error as soon as there is one, or nil when all are done.
func (g *group) Wait() error {
	go func() {
		g.running.Wait()
		close(g.failed)
	}()
	return <-g.failed
}

// message is data in which a mistake is visible.
func message(n, seed int) []int32 {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i*31 + seed)
	}
	return p
}

func expect(got []int32, seed int) error {
	if want := message(len(got), seed); !slices.Equal(got, want) {
		return fmt.Errorf("message %d is another one", seed)
	}
	return nil
}

// held is the number of operations and callers that stand in a rank.
func held(c *jobtest.Cluster, rank int) int { return len(c.Jobs[rank].Engine.Pending()) }

// until lets other goroutines run until something is so.
func until(is func() bool) {
	for !is() {
		runtime.Gosched()
	}
}

// routes are transports before and after a restart. Lists of several are for ranks on different
// nodes.
var routes = [][2]string{
	{"mem", "mem"}, {"mem", "tcp"}, {"tcp", "mem"}, {"tcp", "tcp"},
	{"shm", "shm"}, {"shm", "tcp"}, {"tcp", "shm"}, {"shm,tcp", "shm,tcp"},
	{"local,tcp", "local,tcp"}, {"shm,tcp", "tcp"}, {"shm", "shm,tcp"}, {"mem", "local,shm,tcp"},
	{"rdma", "rdma"}, {"rdma", "tcp"}, {"mem", "rdma"}, {"shm,rdma", "rdma,tcp"},
}

// several reports whether ranks over these transports may be on different nodes.
func several(transports string) bool { return strings.Contains(transports, ",") }

func list(route string) []string { return strings.Split(route, ",") }

// TestBlockedCallsGoOn restarts a job whose goroutines all stand in calls that end only afterwards:
// wildcard receives, synchronous sends small and large, announced messages without a receive, probes
// of both kinds, a barrier, a reduction, Finalize.
func TestBlockedCallsGoOn(t *testing.T) {
	for i, route := range routes {
		t.Run(route[0]+" to "+route[1], func(t *testing.T) {
			const n, big = 3, 1 << 19
			opt := jobtest.Options{Dir: t.TempDir(), RPI: list(route[0]), Asked: i%2 == 1}
			if several(route[0]) {
				opt.Nodes = []int{0, 1, 0}
			}
			c := jobtest.New(n, opt)
			release := make(chan struct{})
			wait := ranks(c, func(w *mpi.Comm) error { return blocked(w, release, big) })
			// Rank 2 is in the collectives alone and in its sends; the others in
			// receives and probes of what it has not sent.
			until(func() bool { return held(c, 2) >= 5 && held(c, 0) >= 3 && held(c, 1) >= 3 })
			for i := range 3 {
				if err := c.Revive(list(route[1])...); err != nil {
					t.Fatal(err)
				}
				if err := c.Migrate(jobtest.Moves{Ranks: []int{i}, Failing: []int{5, 10}[:i], Revert: i == 2}, list(route[1])...); err != nil {
					t.Fatal(err)
				}
			}
			close(release)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			c.Stop()
		})
	}
}

// blocked is the program of TestBlockedCallsGoOn. Its ranks make the calls that end the others' only
// when released.
func blocked(w *mpi.Comm, release chan struct{}, big int) error {
	me := w.Rank()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	do := func(i int, f func() error) {
		wg.Go(func() {
			if err := f(); err != nil {
				errs[i] = fmt.Errorf("part %d: %w", i, err)
			}
		})
	}
	side, err := w.Dup()
	if err != nil {
		return err
	}
	if me < 2 {
		do(0, func() error { // a wildcard that rank 2 serves after the release
			p := make([]int32, 10)
			if _, err := mpi.Recv(w, p, mpi.AnySource, 100); err != nil {
				return err
			}
			return expect(p, 100)
		})
		do(1, func() error {
			s, err := w.Probe(mpi.AnySource, 101)
			if err != nil {
				return err
			}
			p := make([]int32, 10)
			if _, err := mpi.Recv(w, p, s.Source, 101); err != nil {
				return err
			}
			return expect(p, 101)
		})
		do(2, func() error { // posted, wanted large, sent late
			p := make([]int32, big)
			if _, err := mpi.Recv(w, p, 2, 102); err != nil {
				return err
			}
			return expect(p, 102)
		})
		<-release
		for _, tag := range []int{200, 201, 202} {
			p := make([]int32, []int{10, big, big}[tag-200])
			if _, err := mpi.Recv(w, p, mpi.AnySource, tag); err != nil {
				return err
			}
			if err := expect(p, tag); err != nil {
				return err
			}
		}
	} else {
		for dst := range 2 {
			do(dst, func() error { return mpi.Ssend(w, message(10, 200), dst, 200) })
			do(2+dst, func() error { return mpi.Ssend(w, message(big, 201), dst, 201) })
			do(4+dst, func() error { return mpi.Send(w, message(big, 202), dst, 202) })
		}
		do(6, func() error { return mpi.Barrier(side) })
		<-release
		for dst := range 2 {
			for _, tag := range []int{100, 101} {
				if err := mpi.Send(w, message(10, tag), dst, tag); err != nil {
					return err
				}
			}
			if err := mpi.Send(w, message(big, 102), dst, 102); err != nil {
				return err
			}
		}
	}
	if me < 2 {
		if err := mpi.Barrier(side); err != nil {
			return err
		}
	}
	wg.Wait()
	sum := make([]int, 1)
	if err := mpi.Allreduce(w, []int{me + 1}, sum, mpi.Sum); err != nil {
		return err
	}
	if sum[0] != 6 {
		return fmt.Errorf("the ranks add up to %d", sum[0])
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRandomRevivals runs random traffic, with random restarts in the middle,
// over one transport and another. GORUN_REVIVALS sets the number of schedules,
// GORUN_REVIVAL_SEED that of the first.
func TestRandomRevivals(t *testing.T) {
	randomly(t, 24, func(c *jobtest.Cluster, _ *rand.Rand, to []string) error { return c.Revive(to...) })
}

// TestRandomMoves is the same with ranks that move while others stay, at once or after moves that have failed.
func TestRandomMoves(t *testing.T) {
	randomly(t, 24, func(c *jobtest.Cluster, rng *rand.Rand, to []string) error {
		return c.Migrate(someMoves(rng, len(c.Jobs)), to...)
	})
}

// someMoves moves some of n ranks. Each says four words at least until it is up.
func someMoves(rng *rand.Rand, n int) jobtest.Moves {
	m := jobtest.Moves{Ranks: rng.Perm(n)[:1+rng.IntN(n)]}
	for range max(0, rng.IntN(5)-1) {
		m.Failing = append(m.Failing, rng.IntN(4*n))
	}
	m.Revert = len(m.Failing) > 0 && rng.IntN(2) == 0
	return m
}

// randomly runs schedules of random traffic in which processes come back.
func randomly(t *testing.T, schedules int, again func(*jobtest.Cluster, *rand.Rand, []string) error) {
	if raceEnabled || testing.Short() {
		schedules /= 4
	}
	schedules = testenv.Number(t, "GORUN_REVIVALS", schedules)
	first := testenv.Number(t, "GORUN_REVIVAL_SEED", 0)
	total := 0
	for seed := first; seed < first+schedules; seed++ {
		total += random(t, seed, again)
	}
	t.Logf("%d restarts in %d schedules", total, schedules)
}

// random is one of the schedules. It returns how often the processes have come back.
func random(t *testing.T, seed int, again func(*jobtest.Cluster, *rand.Rand, []string) error) (times int) {
	route := routes[seed%len(routes)]
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	n := 2 + rng.IntN(4)
	traffic := &traffic{n: n, rounds: 6 + rng.IntN(10), seed: uint64(seed)}
	opt := jobtest.Options{Dir: t.TempDir(), RPI: list(route[0]), Asked: rng.IntN(2) == 0, SparseFrom: rng.IntN(2), Params: someTable(rng)}
	opt.Crowded = seed/len(routes)%2 == 0 // each route both ways
	if several(route[0]) {
		opt.Nodes = someNodes(rng, n)
		opt.Params["local.shy"] = fmt.Sprintf("%d>%d", rng.IntN(n), rng.IntN(n))
	}
	c := jobtest.New(n, opt)
	wait := ranks(c, traffic.rank)
	over := make(chan struct{})
	go func() { wait(); close(over) }()
	isOver := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	for range 1 + rng.IntN(4) {
		at := traffic.calls.Load() + rng.Int64N(int64(30*n))
		until(func() bool { return isOver() || traffic.calls.Load() >= at })
		if isOver() && wait() != nil {
			break // the ranks that have not failed may never be ready for a restart
		}
		to := route[1]
		if times%2 == 1 && rng.IntN(2) == 0 { // and back
			to = route[0]
		}
		if several(to) {
			c.Move(someNodes(rng, n))
		} else {
			c.Move(nil)
		}
		err := again(c, rng, list(to))
		if err != nil && !strings.Contains(err.Error(), "all ranks have entered Finalize") {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err == nil {
			times++
		}
	}
	if err := wait(); err != nil {
		t.Fatalf("seed %d, %d ranks, %v: %v", seed, n, route, err)
	}
	c.Stop()
	return times
}

// someTable chooses how collectives work: the built-in table, or shared memory for everything, all
// at once or in pieces.
func someTable(rng *rand.Rand) map[string]string {
	table := map[string]string{}
	text := []string{"", "shared", "shared@1k"}[rng.IntN(3)]
	for _, c := range coll.Collectives {
		if text == "" || !slices.Contains(c.Algorithms, coll.Shared) {
			continue
		}
		table[coll.Prefix+c.Name] = text
		if slices.Contains(c.Algorithms, coll.Levels) {
			table[coll.Prefix+c.Name] += "/levels:nodes"
		}
	}
	return table
}

// someNodes puts ranks on one or two nodes.
func someNodes(rng *rand.Rand, n int) []int {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = rng.IntN(1 + rng.IntN(2))
	}
	return nodes
}

// traffic is a program whose ranks talk in several ways at once; every message
// is known beforehand.
type traffic struct {
	n, rounds int
	seed      uint64
	calls     atomic.Int64
}

func (x *traffic) rank(w *mpi.Comm) error {
	ways := []func(*mpi.Comm, int) error{x.collective, x.exchange, x.wild, x.probed, x.reduced, x.moved, x.held}
	all := newGroup()
	for i, way := range ways {
		c, err := w.Dup()
		if err != nil {
			return err
		}
		all.Go(func() error {
			for round := range x.rounds {
				x.calls.Add(1)
				if err := way(c, round); err != nil {
					return fmt.Errorf("way %d, round %d: %w", i, round, err)
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func (x *traffic) size(round, way int) int {
	rng := rand.New(rand.NewPCG(x.seed, uint64(round*10+way)))
	return []int{0, 5, 900, 30_000, 300_000}[rng.IntN(5)]
}

func (x *traffic) collective(c *mpi.Comm, round int) error {
	if err := mpi.Barrier(c); err != nil {
		return err
	}
	sums := make([]int32, 1+x.size(round, 0)/10)
	if err := mpi.Allreduce(c, message(len(sums), c.Rank()), sums, mpi.Sum); err != nil {
		return err
	}
	for i, s := range sums {
		if want := int32(x.n*i*31 + x.n*(x.n-1)/2); s != want {
			return fmt.Errorf("sum %d is %d, not %d", i, s, want)
		}
	}
	p := make([]int32, x.size(round, 0))
	if c.Rank() == round%x.n {
		p = message(len(p), round)
	}
	if err := mpi.Bcast(c, p, round%x.n); err != nil {
		return err
	}
	return expect(p, round)
}

// reduced: collectives in which ranks combine what they have.
func (x *traffic) reduced(c *mpi.Comm, round int) error {
	n, me := x.n, c.Rank()
	k := 1 + x.size(round, 4)/40
	sum := mpi.Sum[int32]
	sumOf := func(i, ranks int) int32 { return int32(ranks*i*31 + ranks*(ranks-1)/2) } // of element i of so many messages
	got := make([]int32, k)
	if err := mpi.Scan(c, message(k, me), got, sum); err != nil {
		return err
	}
	for i, s := range got {
		if s != sumOf(i, me+1) {
			return fmt.Errorf("sum %d up to this rank is %d, not %d", i, s, sumOf(i, me+1))
		}
	}
	if err := mpi.Reduce(c, message(k, me), got, sum, round%n); err != nil {
		return err
	}
	for i, s := range got {
		if me == round%n && s != sumOf(i, n) {
			return fmt.Errorf("sum %d at the root is %d, not %d", i, s, sumOf(i, n))
		}
	}
	if err := mpi.ReduceScatterBlock(c, message(k*n, me), got, sum); err != nil {
		return err
	}
	for i, s := range got {
		if s != sumOf(me*k+i, n) {
			return fmt.Errorf("sum %d of this rank's block is %d, not %d", i, s, sumOf(me*k+i, n))
		}
	}
	return nil
}

// moved: collectives in which ranks give each other what they have.
func (x *traffic) moved(c *mpi.Comm, round int) error {
	n, me := x.n, c.Rank()
	k := x.size(round, 5) / 40
	var send []int32
	for to := range n {
		send = append(send, message(k, 100*me+to)...)
	}
	got, mine := make([]int32, n*k), make([]int32, k)
	if err := mpi.Alltoall(c, send, got); err != nil {
		return err
	}
	for from := range n {
		if err := expect(got[from*k:(from+1)*k], 100*from+me); err != nil {
			return err
		}
	}
	if err := mpi.Scatter(c, send, mine, round%n); err != nil {
		return err
	}
	if err := expect(mine, 100*(round%n)+me); err != nil {
		return err
	}
	clear(got)
	if err := mpi.Allgather(c, mine, got); err != nil {
		return err
	}
	if err := mpi.Gather(c, mine, send, round%n); err != nil {
		return err
	}
	for from := range n {
		if err := expect(got[from*k:(from+1)*k], 100*(round%n)+from); err != nil {
			return err
		}
	}
	if me == round%n && !slices.Equal(send, got) {
		return fmt.Errorf("the root has gathered something else than all ranks")
	}
	return nil
}

// held: sections in which no restart may fall. Others fall while a rank waits to enter one.
func (x *traffic) held(c *mpi.Comm, round int) error {
	j := job.Of(c)
	if err := j.Hold("the traffic"); err != nil {
		return err
	}
	life := j.Incarnation()
	to, from := (c.Rank()+1)%x.n, (c.Rank()+x.n-1)%x.n
	if err := mpi.Send(c, []int32{int32(round)}, to, round); err != nil {
		return err
	}
	runtime.Gosched()
	if now := j.Incarnation(); now != life {
		return fmt.Errorf("incarnation %d began in a section of %d", now, life)
	}
	if err := j.Release(); err != nil {
		return err
	}
	got := make([]int32, 1)
	if _, err := mpi.Recv(c, got, from, round); err != nil {
		return err
	}
	if got[0] != int32(round) {
		return fmt.Errorf("round %d of rank %d", got[0], from)
	}
	return nil
}

func (x *traffic) exchange(c *mpi.Comm, round int) error {
	var all []mpi.Request
	in := make([][]int32, x.n)
	for peer := range x.n {
		in[peer] = make([]int32, x.size(round, 1))
		r, err := mpi.Irecv(c, in[peer], peer, round)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	for peer := range x.n {
		r, err := mpi.Isend(c, message(x.size(round, 1), c.Rank()*100+round), peer, round)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	for i := range all {
		if _, err := all[(i+round)%len(all)].Wait(); err != nil {
			return err
		}
	}
	for peer := range x.n {
		if err := expect(in[peer], peer*100+round); err != nil {
			return err
		}
	}
	return nil
}

// wild: synchronous sends to one rank, which takes them as they come.
func (x *traffic) wild(c *mpi.Comm, round int) error {
	root := round % x.n
	if c.Rank() != root {
		return mpi.Ssend(c, message(x.size(round, 2), c.Rank()*100+round), root, round)
	}
	for range x.n - 1 {
		p := make([]int32, x.size(round, 2))
		s, err := mpi.Recv(c, p, mpi.AnySource, round)
		if err != nil {
			return err
		}
		if err := expect(p, s.Source*100+round); err != nil {
			return err
		}
	}
	return nil
}

// probed: a ring in which the receiver first looks, or takes, what comes.
func (x *traffic) probed(c *mpi.Comm, round int) error {
	me, n := c.Rank(), x.n
	send, err := mpi.Isend(c, message(x.size(round, 3), me*100+round), (me+1)%n, round)
	if err != nil {
		return err
	}
	from := (me + n - 1) % n
	p := make([]int32, x.size(round, 3))
	if round%2 == 0 {
		m, _, err := c.Mprobe(mpi.AnySource, round)
		if err != nil {
			return err
		}
		x.calls.Add(1)
		if _, err := mpi.Mrecv(m, p); err != nil {
			return err
		}
	} else {
		if _, err := c.Probe(from, mpi.AnyTag); err != nil {
			return err
		}
		if _, err := mpi.Recv(c, p, from, round); err != nil {
			return err
		}
	}
	if err := expect(p, from*100+round); err != nil {
		return err
	}
	_, err = send.Wait()
	return err
}
