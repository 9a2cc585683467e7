package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gorun-mpi/gorun/cr"
	"github.com/gorun-mpi/gorun/dist"
	"github.com/gorun-mpi/gorun/internal/cli"
	"github.com/gorun-mpi/gorun/internal/protocol/oob"
	"github.com/gorun-mpi/gorun/mpi"
)

func init() { cli.RankMain = rankMain }

// rankMain is the program of a rank; its first argument says what it does.
func rankMain(args []string) int {
	what := args[0]
	if what == "foreign-order" {
		return foreignOrder()
	}
	if what == "no-init" {
		return 0
	}
	if what == "late" {
		late(args[1])
	}
	if what == "bytes" {
		dir, err := os.Getwd()
		fmt.Printf("%q %q %q %v\n", args[1:], os.Getenv("GORUN_TEST_KEPT"), filepath.Base(dir), err)
		args = []string{"count", args[1]}
		what = args[0]
	}
	if what == "end" {
		mpi.Run(func(c *mpi.Comm) error { return endOnce(c, args[1], args[2]) })
		return 0
	}
	if err := mpi.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	world := mpi.World()
	switch what {
	case "no-finalize":
		if world.Rank() == 1 {
			return 0
		}
		mpi.Barrier(world)
	case "abort":
		if world.Rank() == 1 {
			mpi.Abort(world, 42)
		}
		mpi.Barrier(world)
	case "die":
		if world.Rank() == 2 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		// The others' errors are consequences; Run would report them so.
		if err := mpi.Barrier(world); err != nil {
			return 3
		}
	case "leave":
		if world.Rank() == 2 {
			return 5
		}
		for mpi.Barrier(world) == nil {
		}
		return 3
	case "hang":
		if err := hang(world); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "leftover":
		if err := leaveOver(world, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "standstill":
		if err := standStill(world, args[1], args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "sum":
		if err := sumInput(world, args[1], args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "count":
		if err := count(world, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "ballast":
		if err := ballast(world, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "until":
		if err := untilThere(world, args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "costly":
		costly(args[1])
		if err := count(world, args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "section":
		if err := section(world, args[1], args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "log":
		if err := logSteps(world, args[1], args[2], args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "spoil":
		if err := spoil(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "careless":
		careless(args[1], args[2:])
	}
	if err := mpi.Finalize(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// endOnce makes rank 1 end in some way in the first life of a job. In the next life all
// ranks end well. The file tells which life it is.
func endOnce(c *mpi.Comm, how, file string) error {
	_, first := os.Stat(file)
	if err := mpi.Barrier(c); err != nil || first == nil {
		return err
	}
	if c.Rank() != 1 {
		err := mpi.Barrier(c)
		fmt.Println("survivor sees an error:", err)
		return err
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	switch how {
	case "signal":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "connections":
		cutConnections()
		select {}
	case "panic":
		panic("boom")
	case "panic in a goroutine":
		go func() { panic("boom") }()
		select {}
	case "status":
		os.Exit(7)
	case "without Finalize":
		os.Exit(0)
	case "abort":
		mpi.Abort(c, 7)
	}
	return errors.New("that will not do")
}

// cutConnections ends the connections to other ranks, as the death of this one would,
// before anybody can tell the launcher.
func cutConnections() {
	for fd := 4; fd < 100; fd++ {
		if at, err := syscall.Getsockname(fd); err == nil {
			switch at.(type) {
			case *syscall.SockaddrInet4, *syscall.SockaddrInet6:
				syscall.Shutdown(fd, syscall.SHUT_RDWR)
			}
		}
	}
}

// late returns at once in one rank, in the others when somebody opens the pipe.
func late(pipe string) {
	if os.Mkdir(pipe+".taken", 0o700) != nil {
		os.ReadFile(pipe)
	}
}

// hang waits for what never comes: rank 0 for a message, the others for rank 0.
func hang(world *mpi.Comm) error {
	if world.Rank() == 0 {
		_, _, err := mpi.RecvValue[int](world, 1, 7)
		return err
	}
	return mpi.Barrier(world)
}

// count adds up to a limit on all ranks, a Point each step, and prints the sum
// on rank 0 together with where it began.
func count(world *mpi.Comm, limit string) error {
	n, err := strconv.Atoi(limit)
	if err != nil {
		return err
	}
	var i, sum int64
	if err := cr.Register("i", &i); err != nil {
		return err
	}
	if err := cr.Register("sum", &sum); err != nil {
		return err
	}
	if world.Rank() == 0 {
		fmt.Printf("begins at %d\n", i)
	}
	for ; i < int64(n); i++ {
		if err := cr.Point(); err != nil {
			return err
		}
		all := []int64{0}
		if err := mpi.Allreduce(world, []int64{i * int64(world.Rank()+1)}, all, mpi.Sum); err != nil {
			return err
		}
		sum += all[0]
	}
	if world.Rank() == 0 {
		fmt.Printf("sum %d %s\n", sum, os.Getenv("GORUN_TEST_KEPT"))
	}
	return nil
}

// untilThere goes from Point to Point until a file is there.
func untilThere(world *mpi.Comm, file string) error {
	var i int64
	if err := cr.Register("i", &i); err != nil {
		return err
	}
	for there := 0; there == 0; i++ {
		if err := cr.Point(); err != nil {
			return err
		}
		if _, err := os.Stat(file); err == nil {
			there = 1
		}
		var err error
		if there, err = mpi.AllreduceValue(world, there, mpi.Max); err != nil {
			return err
		}
	}
	return nil
}

// spoil goes on until its state is wrong, which it is from when there is a file, and is found out after a restart.
func spoil(file string) error {
	i, wrong := 0, false
	if err := errors.Join(cr.Register("i", &i), cr.Register("wrong", &wrong)); err != nil {
		return err
	}
	fmt.Printf("begins at %d\n", i)
	for ; ; i++ {
		if err := cr.Point(); err != nil {
			return err
		}
		if wrong && cr.Restarted() {
			return errors.New("the state is wrong")
		}
		if !wrong && os.Remove(file) == nil {
			wrong = true
			fmt.Println("spoilt")
		}
	}
}

// costly makes checkpoints cost the ranks a lot more as soon as a file is there that says how much.
func costly(file string) {
	_ = cr.OnCheckpoint(func() error {
		if b, err := os.ReadFile(file); err == nil {
			pause, _ := time.ParseDuration(string(b))
			time.Sleep(pause)
		}
		return nil
	})
}

// careless counts to a limit, registers more variables and looks at no error.
func careless(limit string, names []string) {
	n, _ := strconv.Atoi(limit)
	i, more := 0, make([]int, len(names))
	_ = cr.Register("i", &i)
	for k, name := range names {
		_ = cr.Register(name, &more[k])
	}
	for ; i < n; i++ {
		_ = cr.Point()
	}
}

// foreignOrder speaks for itself: every second rank claims the other byte order.
func foreignOrder() int {
	conn, err := oob.Inherited()
	if err != nil || conn == nil {
		return 9
	}
	info := oob.HelloInfo{Role: "rank", PID: os.Getpid(), Arch: "s390x", BigEndian: os.Getpid()%2 == 0}
	// The rank is not known before Start, which is already there.
	if _, err := conn.Recv(); err != nil {
		return 9
	}
	start, err := conn.Recv()
	if err != nil {
		return 9
	}
	if info.BigEndian = start.To%2 == 1; !info.BigEndian {
		info.Arch = "amd64"
	}
	if _, err := conn.Greet(info, start.To); err != nil {
		return 1 // the head has ended the job
	}
	for {
		if _, err := conn.Recv(); err != nil {
			return 1
		}
	}
}

// sumInput adds up the numbers that rank 0 reads, the first line being how many. After
// 20 it waits for a snapshot in the folder, unless that is empty; after 40 rank 1 is
// killed, once, of which the file begun tells.
func sumInput(c *mpi.Comm, folder, begun string) error {
	in := bufio.NewScanner(os.Stdin)
	state := []int64{0, 0, 0} // how many were read, their sum, and how many there are
	if c.Rank() == 0 {
		if !in.Scan() {
			return errors.New("no first line")
		}
		n, err := strconv.ParseInt(in.Text(), 10, 64)
		if err != nil {
			return err
		}
		state[2] = n
	}
	if err := mpi.Bcast(c, state, 0); err != nil {
		return err
	}
	if err := cr.Register("state", &state); err != nil {
		return err
	}
	for state[0] < state[2] {
		if err := cr.Point(); err != nil {
			return err
		}
		if c.Rank() == 0 && (state[0] != 20 || taken(folder)) {
			if !in.Scan() {
				return fmt.Errorf("the input ends after %d numbers", state[0])
			}
			n, err := strconv.ParseInt(strings.TrimSpace(in.Text()), 10, 64)
			if err != nil {
				return err
			}
			if state[0], state[1] = state[0]+1, state[1]+n; state[0] == 20 {
				fmt.Println("twenty")
			}
		}
		if err := mpi.Bcast(c, state, 0); err != nil {
			return err
		}
		if _, err := os.Stat(begun); err != nil && c.Rank() == 1 && state[0] == 40 {
			if err := os.WriteFile(begun, nil, 0o600); err != nil {
				return err
			}
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := mpi.Barrier(c); err != nil {
			return err
		}
	}
	if c.Rank() == 0 {
		fmt.Println("sum", state[1])
	}
	return nil
}

// taken reports whether there is a snapshot in a folder; "" is not waited for.
func taken(folder string) bool {
	found, _ := filepath.Glob(filepath.Join(folder, "*", "*", "schema.toml"))
	return folder == "" || len(found) > 0
}

// section is a program with a section in which no checkpoint may fall. Rank 0 leaves it when the file, a
// FIFO, has been written, and all ranks count on.
func section(c *mpi.Comm, file string, rest []string) error {
	r := cr.On(c)
	if c.Rank() == 0 {
		for range 2 { // nested
			if err := r.Hold(); err != nil {
				return err
			}
		}
		fmt.Println("in the section")
		if _, err := os.ReadFile(file); err != nil {
			return err
		}
		for range 2 {
			if err := r.Release(); err != nil {
				return err
			}
		}
		fmt.Println("after the section")
	}
	return count(c, rest[0])
}

// logSteps writes a line each step to a file of the rank's own. In its first life rank 1 dies in the middle, when there
// is a snapshot.
func logSteps(world *mpi.Comm, dir, limit, snapshots string) error {
	n, err := strconv.Atoi(limit)
	if err != nil {
		return err
	}
	i, values, title := 0, make([]float64, 3), "steps"
	log, err := cr.File(filepath.Join(dir, fmt.Sprint(world.Rank())), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	field, ferr := dist.New[float64](world, dist.Even(5, world.Size()), 2, 0)
	if err := errors.Join(err, ferr); err != nil {
		return err
	}
	for at := range field.Own() {
		field.Own()[at] = float64(10*world.Rank() + at)
	}
	if err := errors.Join(cr.Register("i", &i), cr.Register("values", &values), cr.Register("title", &title), cr.Register("field", field)); err != nil {
		return err
	}
	defer log.Close()
	for ; i < n; i++ {
		if err := cr.Point(); err != nil {
			return err
		}
		fmt.Fprintln(log, "step", i)
		values[i%3] += float64(i)
		if i == 23 && world.Rank() == 1 && !cr.Restarted() {
			for found := []string(nil); len(found) == 0; time.Sleep(time.Millisecond) {
				found, _ = filepath.Glob(filepath.Join(snapshots, "*", "*", "schema.toml"))
			}
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if err := mpi.Barrier(world); err != nil {
			return err
		}
	}
	return nil
}

// ballast counts for ever with some megabytes of memory in use.
func ballast(c *mpi.Comm, mb string) error {
	n, err := strconv.Atoi(mb)
	if err != nil {
		return err
	}
	b, err := syscall.Mmap(-1, 0, n<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON) // the heap would double
	if err != nil {
		return err
	}
	for i := range b {
		b[i] = byte(i>>3) | 1
	}
	if err := mpi.Barrier(c); err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Println("in use")
	}
	return count(c, fmt.Sprint(20_000_000))
}
