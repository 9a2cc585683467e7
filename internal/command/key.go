package command

import (
	"flag"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

var keyCommand = command{
	name: "key", args: "FILE", short: "make a key file for encrypted images",
	long: `
FILE gets 32 random bytes, and only its owner may read it. It must not exist yet. With
-ckpt-key FILE images are encrypted with it. Each node of the job needs it at the same
path. Keep a copy in a safe place: without it nobody can read the images.`,
	setup: func(_ *flag.FlagSet, std stdio) func([]string) int {
		return func(args []string) int {
			if len(args) != 1 {
				return usage(std, "the FILE to be made is wanted\nusage: %s", lookup("key").usage())
			}
			if err := sealed.NewKey(args[0]); err != nil {
				return failed(std, fmt.Errorf("making a key: %w", err))
			}
			return 0
		}
	},
}
