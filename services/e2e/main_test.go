package e2e

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

func TestMain(m *testing.M) {
	code := m.Run()
	lab.RemoveBinaries()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
