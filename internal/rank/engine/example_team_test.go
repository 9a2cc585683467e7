package engine_test

import (
	"fmt"

	"github.com/gorun-mpi/gorun/internal/rank/engine"
)

// Two ranks are a team: in its first turn each posts a word and reads both, in its
// second one reads what the other has.
func ExampleEngine_Take() {
	a, b, closeBoth := twoRanks()
	defer closeBoth()
	engines := []*engine.Engine{a, b}
	teams, places := make([]*engine.Team, 2), make([]engine.Place, 2)
	for i, e := range engines {
		var ok bool
		if teams[i], places[i], ok = e.OpenTeam(world, []int{0, 1}, i); !ok {
			fmt.Println("no memory that both see: messages will do")
			return
		}
	}
	// Between processes the places go by messages.
	for i, e := range engines {
		if err := e.JoinTeam(teams[i], places); err != nil {
			fmt.Println(err)
		}
	}

	first, second := []string{"one ", "two "}, []string{"   ", "six"}
	said := make(chan string)
	for i, e := range engines {
		go func() {
			all, last := make([]byte, 8), []byte(second[i])
			_, err := e.Take(teams[i], &engine.Turn{Tag: 1, Send: []byte(first[i]), Want: 4, Len: 4, Into: all, Stride: 4}, nil)
			if err != nil {
				fmt.Println(err)
			}
			x := engine.Turn{Tag: 2, Need: engine.FromOne, One: 1, Want: 3, Len: 3, Into: last}
			if i == 1 {
				x.Send = last
			}
			_, err = e.Take(teams[i], &x, nil)
			e.CloseTeam(teams[i])
			said <- fmt.Sprintf("%s%s, %v", all, last, err)
		}()
	}
	fmt.Println(<-said)
	fmt.Println(<-said)
	// Output:
	// one two six, <nil>
	// one two six, <nil>
}

func ExampleEngine_OpenTeam()  { ExampleEngine_Take() }
func ExampleEngine_JoinTeam()  { ExampleEngine_Take() }
func ExampleEngine_CloseTeam() { ExampleEngine_Take() }
