package cli

import (
	"flag"
	"fmt"

	"github.com/gorun-mpi/gorun/cr/store/sealed"
)

var keyCommand = command{
	name: "key", args: "[-fingerprint] FILE", short: "make a key file for encrypted images, or tell which one it is",
	long: `
FILE gets 32 random bytes, and only its owner may read it. It must not exist yet. With
-ckpt-key FILE images are encrypted with it. Each node of the job needs it at the same
path. Keep a copy in a safe place: without it nobody can read the images.

With -fingerprint FILE is a key file that is there. Its fingerprint is printed, by which errors name the key that images
were encrypted with. It does not tell the key.`,
	setup: func(fs *flag.FlagSet, std stdio) func([]string) int {
		fingerprint := fs.Bool("fingerprint", false, "print the fingerprint of an existing key file")
		return func(args []string) int {
			if len(args) != 1 {
				return usage(std, "one FILE is wanted\nusage: %s", lookup("key").usage())
			}
			if *fingerprint {
				id, err := sealed.Fingerprint(args[0])
				if err != nil {
					return failed(std, err)
				}
				fmt.Fprintln(std.out, id)
				return 0
			}
			if err := sealed.NewKey(args[0]); err != nil {
				return failed(std, fmt.Errorf("making a key: %w", err))
			}
			return 0
		}
	},
}
