package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// module is where the binaries' import paths begin.
const module = "github.com/switchyard-io/switchyard/"

var packages = map[string]string{
	"switchyard":  module + "services/cmd/switchyard",
	"gateway":     module + "gateway/cmd/gateway",
	"authority":   module + "authority/cmd/authority",
	"ticketing":   module + "ticketing/cmd/ticketing",
	"worldrouter": module + "worldrouter/cmd/worldrouter",
	"nats-server": "github.com/nats-io/nats-server/v2",
}

var build struct {
	once sync.Once
	dir  string
	err  error
}

// binaryPath returns the path of a built binary. All are built once a test process, with the race
// detector when the tests run with it. RemoveBinaries deletes them.
func binaryPath(name string) (string, error) {
	build.once.Do(func() { build.dir, build.err = buildAll() })
	if build.err != nil {
		return "", build.err
	}
	return filepath.Join(build.dir, name), nil
}

func buildAll() (string, error) {
	dir, err := os.MkdirTemp("", "switchyard-lab-")
	if err != nil {
		return "", err
	}
	for name, pkg := range packages {
		args := []string{"build", "-o", filepath.Join(dir, name)}
		if raceEnabled && name != "nats-server" {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
			return dir, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
}

// RemoveBinaries deletes what was built; a TestMain calls it last.
func RemoveBinaries() {
	if build.dir != "" {
		_ = os.RemoveAll(build.dir) // a temporary folder; the system clears it otherwise
	}
}
