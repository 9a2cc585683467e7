package twoslots

// Piece names a piece within a job: image or shard Index of group Group. Images come first.
type Piece struct{ Group, Index int }

// Answers are the reports of all holders that answer, by piece. A piece may be held more than once.
type Answers map[Piece][]Report

// Newest finds the newest snapshot that can be made from the holders' answers, for groups of so
// many images each. Any so many pieces of a group suffice. It reports false if there is none.
//
// The newest life that any holder was told of decides: its own snapshots count, and the one that it
// began with. All others belong to a line that the job has left.
func Newest(images []int, a Answers) (Cut, bool) {
	var life uint32
	var from Cut
	for _, reports := range a {
		for _, r := range reports {
			if r.Life > life {
				life, from = r.Life, r.From
			}
		}
	}
	have := map[Cut][]int{} // by cut: distinct pieces of each group
	for p, reports := range a {
		if p.Group < 0 || p.Group >= len(images) {
			continue
		}
		seen := map[Cut]bool{}
		for _, r := range reports {
			for _, c := range r.Whole {
				if seen[c] || c == (Cut{}) || c != from && (c.Life != life || r.Life != life) {
					continue
				}
				seen[c] = true
				if have[c] == nil {
					have[c] = make([]int, len(images))
				}
				have[c][p.Group]++
			}
		}
	}
	var best Cut
	for c, n := range have {
		enough := true
		for g := range images {
			enough = enough && n[g] >= images[g]
		}
		if enough && c.Compare(best) > 0 {
			best = c
		}
	}
	return best, best != (Cut{})
}
