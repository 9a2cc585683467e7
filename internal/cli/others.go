package cli

import (
	"fmt"
	"strings"
)

// others are flags of mpirun and mpiexec, of Open MPI and MPICH, that gorun does not have, and its word for each.
var others = map[string]string{
	"x":       "-env NAME or -env NAME=VALUE; without -hosts ranks have gorun's whole environment",
	"host":    "-hosts a,b:4",
	"f":       "-hostfile FILE",
	"mca":     "-param NAME=VALUE ('gorun info' lists them), -rpi for transports",
	"wdir":    "to be started there: (cd DIR && gorun ...)",
	"bind-to": "-bind core, socket, numa or none",
	"map-by":  "-map slot, node, socket or core; -bind binds",
	"genv":    "-env NAME=VALUE",
	"genvall": "nothing: without -hosts ranks have gorun's whole environment; with it -env NAME",
	"ppn":     "-hosts a:2,b:2, the numbers are those of slots; -map node deals ranks out",

	"output-filename":   "-output-dir DIR",
	"l":                 "-tag-output",
	"c":                 "-np N",
	"configfile":        "a colon between programs: gorun -np 1 ./a : -np 2 ./b",
	"report-bindings":   "gorun status -v JOB",
	"display-map":       "gorun status -v JOB",
	"rmk":               "-manager",
	"launcher":          "-manager; -ssh names another ssh",
	"iface":             "-param tcp.networks=NETWORK",
	"stdin":             "none: standard input goes to rank 0",
	"allow-run-as-root": "none: it is not needed",
	"use-hwthread-cpus": "-hosts a:16, with the number of slots that you want",
	"mpi-debug":         "gorun stacks JOB; gorun restart -debug RANK SNAPSHOT",
	"ckpoint":           "-cr",
	"ckpoint-interval":  "-ckpt-every",
	"ckpoint-prefix":    "-ckpt-dir",
}

// alike are further names of these.
var alike = map[string]string{
	"H": "host", "machinefile": "f", "default-hostfile": "f", "gmca": "mca", "pmixmca": "mca", "prtemca": "mca", "am": "mca", "tune": "mca",
	"wd": "wdir", "path": "wdir", "bind-to-core": "bind-to", "bind-to-socket": "bind-to", "bind-to-none": "bind-to", "binding": "bind-to", "cpu-set": "bind-to", "bycore": "map-by",
	"rank-by": "map-by", "bynode": "map-by", "byslot": "map-by", "topo-lib": "map-by", "genvlist": "genv", "envlist": "genv", "envall": "genvall", "genvnone": "genvall", "envnone": "genvall",
	"perhost": "ppn", "grr": "ppn", "npernode": "ppn", "N": "ppn", "npersocket": "ppn", "pernode": "ppn", "prepend-rank": "l", "outfile-pattern": "output-filename", "errfile-pattern": "output-filename",
	"outfile": "output-filename", "output": "output-filename", "app": "configfile", "display-allocation": "display-map", "display": "display-map", "display-topo": "display-map",
	"bootstrap": "launcher", "launcher-exec": "launcher", "bootstrap-exec": "launcher", "plm_rsh_agent": "launcher", "debug": "mpi-debug", "tv": "mpi-debug", "s": "stdin", "ckpointlib": "ckpoint",
}

// othersFlag says what gorun's word is for a flag that it does not have and others do, "" if it is another error.
func othersFlag(err error) string {
	name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !ok {
		return ""
	}
	word := others[name]
	if to := alike[name]; to != "" {
		word = others[to]
	}
	if word == "" {
		return ""
	}
	return fmt.Sprintf("-%s is a flag of other launchers; gorun's word for it is %s", name, word)
}
