package restore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun-mpi/gorun/cr/native/internal/nativetest"
	"github.com/gorun-mpi/gorun/cr/native/internal/refusal"
	"github.com/gorun-mpi/gorun/cr/whole"
)

// realPrograms are of the distribution. Each says that it is ready, is imaged, killed and restored, gets a line, and
// says that all is as it was.
var realPrograms = []struct {
	name, path string
	args       []string
	file       string // its program, by the name of the last argument
	outcome    string
}{{
	name: "bash", path: "/usr/bin/bash", outcome: passes, args: []string{"-c"}, file: `
		(i=0; while :; do echo $((i++)); sleep 0.005; done) | while read n; do echo $n; done > out &
		while [ ! -s out ]; do sleep 0.01; done
		echo ready; read x
		then=$(wc -l < out)
		while [ $(wc -l < out) -lt $((then + 5)) ]; do sleep 0.01; done
		kill $!; wait
		awk '$1 != NR-1 { print "line", NR, $0; exit 1 }' out && echo passed; tail -n 4 out`,
}, {
	name: "dash", path: "/usr/bin/dash", outcome: passes, args: []string{"-c"}, file: `
		(trap 'exit 7' TERM; while :; do sleep 0.01; done) &
		echo ready; read x
		kill $!; wait $!
		[ $? = 7 ] && echo passed`,
}, {
	name: "sqlite3", path: "/usr/bin/bash", outcome: passes, args: []string{"-c"}, file: `
		coproc S { sqlite3 data.db; }
		echo "create table t(n); begin immediate; insert into t values(1); select 'open';" >&${S[1]}
		read -u ${S[0]} x
		echo ready; read x
		echo "insert into t values(2); commit; select sum(n) from t;" >&${S[1]}
		read -u ${S[0]} sum
		[ $sum = 3 ] && echo passed`,
}, {
	name: "sqlite3-wal", path: "/usr/bin/bash", outcome: passes, args: []string{"-c"}, file: `
		coproc S { sqlite3 data.db; }
		coproc T { sqlite3 data.db; }
		echo "pragma journal_mode=wal; create table t(n); insert into t values(1); begin immediate; insert into t values(2); select 'open';" >&${S[1]}
		read -u ${S[0]} mode; read -u ${S[0]} x
		echo "select sum(n) from t;" >&${T[1]}
		read -u ${T[0]} before
		echo ready; read x
		echo "insert into t values(3); commit; select 'done';" >&${S[1]}
		read -u ${S[0]} x
		echo "select sum(n) from t; pragma wal_checkpoint; pragma integrity_check;" >&${T[1]}
		read -u ${T[0]} sum; read -u ${T[0]} x; read -u ${T[0]} whole
		[ $mode = wal -a $before = 1 -a $sum = 6 -a $whole = ok ] && echo passed`,
}, {
	name: "perl", path: "/usr/bin/perl", outcome: passes, args: []string{"-e"}, file: `
		use IPC::Open2; $| = 1;
		my $pid = open2(my $out, my $in, "cat");
		print $in "before\n"; $in->flush;
		print "ready\n"; my $line = <STDIN>;
		print $in "after\n"; close $in;
		my $all = join "", <$out>; waitpid $pid, 0;
		print $all eq "before\nafter\n" && $? == 0 ? "passed\n" : "failed $all\n";`,
}, {
	name: "python", path: "/usr/bin/python3", outcome: passes, args: []string{"-c"}, file: `
import subprocess, sys
p = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
p.stdin.write(b"before\n"); p.stdin.flush()
print("ready", flush=True); sys.stdin.readline()
p.stdin.write(b"after\n"); p.stdin.close()
print("passed" if p.stdout.read() == b"before\nafter\n" and p.wait() == 0 else "failed", flush=True)`,
}, {
	name: "multiprocessing", path: "/usr/bin/python3", outcome: passes, args: []string{"-c"}, file: `
import multiprocessing, sys
pool = multiprocessing.get_context("fork").Pool(2)
assert pool.map(abs, range(-9, 0)) == list(range(9, 0, -1))
print("ready", flush=True); sys.stdin.readline()
print("passed" if pool.map(abs, range(-99, 0)) == list(range(99, 0, -1)) else "failed", flush=True)`,
}, {
	name: "node", path: "/usr/bin/node", outcome: passes, args: []string{"-e"}, file: `
		const cat = require("child_process").spawn("cat");
		let got = "";
		cat.stdout.on("data", d => { if ((got += d) == "before\n") console.log("ready"); });
		cat.on("close", code => console.log(got == "before\nafter\n" && code == 0 ? "passed" : "failed " + got));
		cat.stdin.write("before\n");
		process.stdin.once("data", () => { cat.stdin.end("after\n"); process.stdin.pause(); });`,
}, {
	name: "tcl", path: "/usr/bin/tclsh", outcome: passes, file: `
		set cat [open "|cat" r+]
		fconfigure $cat -buffering line
		puts $cat before; gets $cat
		puts ready; flush stdout; gets stdin
		puts $cat after
		puts [expr {[gets $cat] eq "after" ? "passed" : "failed"}]; flush stdout`,
}, {
	name: "make", path: "/usr/bin/make", outcome: passes, args: []string{"-s", "-j2", "-f"}, file: `
all: a b
a: ; @echo ready; read x; touch done
b: ; @while [ ! -e done ]; do sleep 0.01; done; echo passed
`,
}, {
	name: "java", path: "/usr/bin/java", outcome: passes, args: []string{"-XX:+UseSerialGC"}, file: `
import java.io.*;
class Main {
	public static void main(String[] args) throws Exception {
		var large = new RandomAccessFile("large", "rw"); // its statistics, which are mapped, are no part of that
		large.setLength(65L << 20);
		Process cat = new ProcessBuilder("cat").start();
		var in = new BufferedReader(new InputStreamReader(System.in));
		var out = new BufferedReader(new InputStreamReader(cat.getInputStream()));
		cat.getOutputStream().write("before\n".getBytes()); cat.getOutputStream().flush();
		out.readLine();
		System.out.println("ready"); in.readLine();
		cat.getOutputStream().write("after\n".getBytes()); cat.getOutputStream().close();
		System.out.println(out.readLine().equals("after") && cat.waitFor() == 0 && large.length() == 65L << 20 ? "passed" : "failed");
	}
}`,
}, {
	name: "script", path: "/usr/bin/script", outcome: passes, args: []string{"-q", "log", "-c"}, file: `
		stty -echo rows 33; trap 'exit 1' INT
		while :; do sleep 0.002; done &
		was="$(tty) $(stty -a)"
		echo ready; read x
		[ "$was" = "$(tty) $(stty -a)" ] && kill $! && echo passed`,
}, {
	name: "tmux", path: "/usr/bin/bash", outcome: passes, args: []string{"-c"}, file: `
		export TMUX_TMPDIR=$PWD SHELL=/bin/sh
		shows() { until [ "$(tmux capture-pane -p | tr -s '\n' ' ')" = "$1 " ]; do sleep 0.01; done; }
		tmux -D -f /dev/null &
		until tmux -N new-session -d -x 70 -y 20 cat; do sleep 0.01; done 2> /dev/null
		tmux send-keys before Enter; shows "before before"
		tmux send-keys aft; shows "before before aft"
		echo ready; read x
		tmux send-keys er Enter; shows "before before after after"
		tmux kill-server; wait; echo passed`,
}, {
	name: "gdb", path: "/usr/bin/gdb", outcome: refused, args: []string{"-q", "-batch", "-ex", "starti", "-ex", "shell echo ready; read x", "/usr/bin/true"},
}}

// programsVar names real programs to be imaged, with spaces between; "all" are all, and without it the shell is.
const programsVar = "GORUN_NATIVE_PROGRAMS"

func TestRealPrograms(t *testing.T) {
	chosen := strings.Fields(os.Getenv(programsVar))
	if len(chosen) == 0 {
		chosen = []string{"bash"}
	}
	for _, p := range realPrograms {
		if chosen[0] != "all" && !strings.Contains(" "+strings.Join(chosen, " ")+" ", " "+p.name+" ") {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			path, err := filepath.EvalSymlinks(p.path)
			if err != nil {
				t.Skip(err)
			}
			tr := newTrip(t, path)
			args := p.args
			switch {
			case p.file == "":
			case len(args) > 0 && (args[len(args)-1] == "-c" || args[len(args)-1] == "-e"):
				args = append(args, p.file)
			default:
				source := filepath.Join(tr.dir, "Main.java")
				if err := os.WriteFile(source, []byte(p.file), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, source)
			}
			tr.start(args...)
			statistics := fmt.Sprintf("/tmp/hsperfdata_*/%d", tr.pid) // Java's are in a folder of all
			defer func() {
				tr.kill()
				kept, _ := filepath.Glob(statistics + ".gorun-*")
				left, _ := filepath.Glob(statistics)
				for _, path := range append(kept, left...) {
					os.Remove(path)
				}
			}()
			for line := ""; line != "ready"; {
				line = tr.next("")
			}
			img, err := tr.tryImage(whole.CaptureOptions{})
			if errors.Is(err, refusal.ErrRefused) && p.outcome == refused {
				t.Log(err)
				return
			}
			if err != nil || p.outcome == refused {
				t.Fatalf("%s is imaged: %v", p.name, err)
			}
			tr.kill()
			tr.restore(img)
			fmt.Fprintln(tr.stdin, "go on")
			tr.next("passed")
		})
	}
}

// TestRealProgramsUnprivileged does so as an ordinary user.
func TestRealProgramsUnprivileged(t *testing.T) {
	if os.Getenv(programsVar) == "" {
		t.Skip("set " + programsVar)
	}
	t.Log(nativetest.Unprivileged(t, "^TestRealPrograms$"))
}
