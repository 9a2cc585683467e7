package cli

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun-mpi/gorun/cr/snapshot"
	"github.com/gorun-mpi/gorun/internal/system/owned"
)

// Folders of snapshots may be in common. What another user could have written there is neither listed nor meant by "latest". Where a command
// names it, the user is told whose it is, and -trust takes it all the same.

// trustFlag adds -trust.
func trustFlag(fs *flag.FlagSet) *bool {
	return fs.Bool("trust", false, "take what another user has written, or could have: read it; of a restart: run it as you")
}

// What a command does under -trust with something of another user.
const (
	toRun    = "takes it, and runs its program as you"
	toRead   = "reads it all the same"
	toImport = "takes it in: a restart of that runs its program as you"
)

// foreign adds the remedy to an error that says whose something is.
func foreign(err error, does string) error {
	if errors.Is(err, snapshot.ErrForeign) {
		return fmt.Errorf("%w; if you trust who could have written it, -trust %s", err, does)
	}
	return err
}

// ownersOnly is the error of what another user's job would lose something by.
func ownersOnly(err error) error {
	return fmt.Errorf("%w: nobody else removes anything of it, with -trust neither", err)
}

// tellOthers says how many jobs of others are not listed.
func tellOthers(std stdio, c *snapshot.Catalogue) {
	if left := leftOut(c); left != "" {
		fmt.Fprintf(std.err, "gorun: %s\n", left)
	}
}

// leftOut says how many jobs of others a list, and latest, leave out, "" if there are none.
func leftOut(c *snapshot.Catalogue) string {
	others, err := c.Others()
	if err != nil || len(others) == 0 {
		return "" // the error is told by who lists
	}
	count := map[int]int{}
	for _, uid := range others {
		count[uid]++
	}
	var who []string
	for _, uid := range slices.Sorted(maps.Keys(count)) {
		who = append(who, fmt.Sprintf("%d of %s", count[uid], owned.User(uid)))
	}
	return fmt.Sprintf("jobs of other users in %s are left out: %s", c.Root(), strings.Join(who, ", "))
}
