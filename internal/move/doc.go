// Package move copies what lies in memory that processes share.
package move
