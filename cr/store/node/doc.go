// Package node is a store that lies in parts on the nodes of a job: each piece on the node that wrote it.
//
//	node a                 node b                 node c
//	 FOLDER/<set>/          FOLDER/<set>/          FOLDER/<set>/
//	   rank-00000.img         rank-00002.img         rank-00000.img   fetched, when rank 0
//	   rank-00001.img         rank-00003.img                          went on here
//
// FOLDER is local to a node, and need not be the same disk twice: "%n" in it stands for the name of the node. If
// some nodes see the same folder after all, nothing is wrong; a piece then seems to be on each of them.
//
// Pieces are written here and nowhere else, as files (store.Dir). They are read here if they are
// here, otherwise from a node that has them. There is no list of that: the nodes that answer are
// asked. The schema tells who wrote a piece, for people. Nothing is gathered at one node.
//
// # Fetching
//
// Fetch brings a piece to this node: it reads it from a node that has it, checks the copy, and only then gives it
// its name. If a node goes away in the middle, or what it has is damaged, the next one that has it is asked, and
// the error tells of all of them. Several fetches of one piece at once do no harm.
//
// # Nodes that do not answer
//
// Peers tells which nodes can be asked, and which there are besides. A piece that no node has which answers is
// fs.ErrNotExist if all answer, and else store.ErrUnreachable: it may be there. Remove removes what it can reach
// and names the nodes that it cannot: pieces there stay, until the catalogue's Sweep finds them.
package node
