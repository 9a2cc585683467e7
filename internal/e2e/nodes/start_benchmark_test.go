package nodes

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// contender is a way to start 64 processes on four nodes, without its program.
type contender struct {
	name    string
	command []string
	cc      string // compiles its empty MPI program; "": that is march
}

// curve is a key exchange that costs ssh less than its default, which all contenders use.
const curve = "ssh -o KexAlgorithms=^curve25519-sha256"

func contenders(c *cluster) []contender {
	const hosts = "n1:16,n2:16,n3:16,n4:16"
	return []contender{
		{"gorun", []string{c.file("gorun"), "-hosts", hosts, "-np", "64"}, ""},
		{"gorun-curve25519", []string{c.file("gorun"), "-ssh", curve, "-hosts", hosts, "-np", "64"}, ""},
		{"openmpi", []string{"mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "--mca", "btl", "self,vader,tcp",
			"--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--host", hosts, "-np", "64"}, "mpicc.openmpi"},
		{"mpich", []string{"mpiexec.hydra", "-launcher", "ssh", "-hosts", hosts, "-np", "64"}, "mpicc.mpich"},
	}
}

// BenchmarkStart measures, in turns, how long it takes from the start to the end of 64 x /bin/true
// and of 64 ranks that only call Init and Finalize.
//
//	go test ./internal/e2e/nodes -run '^$' -bench Start -benchtime 5x -timeout 1h
//
// Figures are medians, in seconds.
func BenchmarkStart(b *testing.B) {
	for _, program := range []string{"true", "empty"} {
		b.Run(program, func(b *testing.B) {
			c := newCluster(b, 4)
			var runs []contender
			for _, who := range contenders(c) {
				if _, err := exec.LookPath(who.command[0]); err == nil {
					who.command = append(who.command, c.program(b, program, who.cc)...)
					runs = append(runs, who)
				} else {
					b.Logf("%s is not there: %v", who.name, err)
				}
			}
			times := make([][]float64, len(runs))
			for round := 0; b.Loop(); round++ {
				for i := range runs {
					who := runs[(i+round)%len(runs)]
					begin := time.Now()
					if out, err := c.Command("n1", who.command...).CombinedOutput(); err != nil {
						b.Fatalf("%s: %v\n%s", who.name, err, out)
					}
					times[(i+round)%len(runs)] = append(times[(i+round)%len(runs)], time.Since(begin).Seconds())
				}
			}
			for i, who := range runs {
				slices.Sort(times[i])
				b.ReportMetric(times[i][len(times[i])/2], who.name+"-s")
			}
		})
	}
}

// program is the command of what is started.
func (c *cluster) program(b *testing.B, what, cc string) []string {
	switch {
	case what == "true":
		return []string{"/bin/true"}
	case cc == "":
		return []string{c.file("march"), "-empty"}
	}
	source, binary := c.file("empty.c"), c.file(strings.ReplaceAll(cc, ".", "-"))
	text := "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n"
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command(cc, "-o", binary, source).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", cc, err, out)
	}
	return []string{filepath.Clean(binary)}
}
