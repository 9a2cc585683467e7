// Package move copies bytes in memory that processes share.
package move
