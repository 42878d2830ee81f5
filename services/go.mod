module github.com/switchyard-io/switchyard/services

go 1.26.0

require (
	github.com/switchyard-io/switchyard/authority v0.0.0
	github.com/switchyard-io/switchyard/gateway v0.0.0
	github.com/switchyard-io/switchyard/shared v0.0.0
	github.com/switchyard-io/switchyard/ticketing v0.0.0
	github.com/switchyard-io/switchyard/worldrouter v0.0.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/anishathalye/porcupine v1.3.1 // indirect
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/ws v1.5.0 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nats-server/v2 v2.15.2 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/spf13/cobra v1.10.2 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)

replace github.com/switchyard-io/switchyard/shared => ../shared

replace github.com/switchyard-io/switchyard/authority => ../authority

replace github.com/switchyard-io/switchyard/gateway => ../gateway

replace github.com/switchyard-io/switchyard/ticketing => ../ticketing

replace github.com/switchyard-io/switchyard/worldrouter => ../worldrouter
