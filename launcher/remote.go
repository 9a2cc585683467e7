package launcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// The scripts have neither ' nor ! and are one line, because the user's shell on a node may be any.

// runScript runs gorun as a keeper: $1 is its path, "" not to try that, $2 its digest, $3 its size.
const runScript = `for g in "$1" "${XDG_CACHE_HOME:-$HOME/.cache}/gorun/bin/$2/gorun"; do ` +
	`if [ -n "$g" ] && [ -f "$g" ] && [ -x "$g" ] && [ "$(wc -c <"$g")" -eq "$3" ]; then exec "$g" ` + KeeperVerb + ` "$2"; fi; done; ` +
	`echo; echo "` + KeeperMissing + `$(uname -sm)"`

// copyScript makes a copy of gorun: $1 is its digest, $2 its size, its standard input the file.
const copyScript = `umask 077; d="${XDG_CACHE_HOME:-$HOME/.cache}/gorun/bin"; mkdir -p "$d/$1" || exit 1; t="$d/$1/.new.$$"; ` +
	`trap "rm -f \"$t\"" 0; cat >"$t" && chmod 700 "$t" && [ "$(wc -c <"$t")" -eq "$2" ] && { sync "$t" 2>/dev/null || sync; } && mv -f "$t" "$d/$1/gorun" || exit 1; ` +
	`touch "$d/$1"; find "$d" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} + 2>/dev/null; exit 0`

// Remote starts a keeper on a node by a command that runs a shell's script there, as ssh and srun do.
// The script runs gorun from the path that it has here, if it is there too, as on a shared file
// system. Otherwise it runs the copy in the user's cache folder:
//
//	${XDG_CACHE_HOME:-~/.cache}/gorun/bin/DIGEST/gorun
//
// Where that is missing, too, gorun copies itself there by another such command. The copy appears
// whole or not at all, on the disk too, and the keeper checks its own digest whatever it was started from. A
// file of another size is not run. Copies of
// other digests that are older than 30 days are removed. The folder may be removed at any time.
//
// start runs a script with its arguments there, with Exec or ExecAsking. command makes the command that
// does, for scripts that start nothing. An error may be a *StartError.
func Remote(ctx context.Context, start func(script string, args ...string) (Process, error), command func(script string, args ...string) (*exec.Cmd, error)) (Process, error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	size := fmt.Sprint(self.Size)
	p, err := start(runScript, self.Path, self.Digest, size)
	var failed *StartError
	if errors.As(err, &failed) && (failed.Missing || failed.Differs) {
		if failed.Missing && failed.There != here {
			return nil, fmt.Errorf("it is another kind of machine (%s) than this one (%s): all nodes of a job must be of one kind", failed.There, here)
		}
		if err := copySelf(ctx, command, self); err != nil {
			return nil, err
		}
		p, err = start(runScript, "", self.Digest, size)
	}
	if errors.As(err, &failed) {
		switch {
		case failed.Differs:
			return nil, fmt.Errorf("the copy of gorun in its cache folder is another gorun (%s): remove ~/.cache/gorun there", failed.There)
		case failed.Missing:
			return nil, errors.New("gorun was copied there and is not there: does its cache folder (~/.cache/gorun) allow programs to be run?")
		}
	}
	return p, err
}

// copySelf copies the gorun that runs to a node.
func copySelf(ctx context.Context, command func(string, ...string) (*exec.Cmd, error), self Executable) error {
	cmd, err := command(copyScript, self.Digest, fmt.Sprint(self.Size))
	if err != nil {
		return err
	}
	f, err := Open()
	if err != nil {
		return err
	}
	defer f.Close()
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = f, &said
	if err := Client(ctx, cmd); err != nil {
		return fmt.Errorf("gorun is not there and could not be copied there: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// here is this machine's kind as uname -sm prints it.
var here = func() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}()
