package protect

// Superseded lists which snapshots in memory, the oldest first, may be given up: all but the
// newest, and the newest that has all that its policy wants. weak tells which have less. So a weak
// snapshot never costs the last strong one, and every snapshot given up is older than one that has
// all its copies.
func Superseded(weak []bool) (drop []int) {
	newest, strong := true, false // is it the newest; has a strong one been seen
	for i := len(weak) - 1; i >= 0; i-- {
		if !newest && (strong || weak[i]) {
			drop = append(drop, i)
		}
		newest, strong = false, strong || !weak[i]
	}
	return drop
}
