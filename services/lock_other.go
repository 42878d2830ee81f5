//go:build !unix

package services

import "os"

// lock does nothing here: the listeners' ports are the only guard against a second process.
func lock(*os.File) error { return nil }
