# The image of make image, for those who have a builder: docker build -t NAME:TAG .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build && mkdir /empty

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /empty /etc/docket
COPY --from=build --chown=65532:65532 /empty /run/docket
COPY --from=build --chown=65532:65532 /empty /var/lib/docket
COPY --from=build /src/bin/docket /docket
ENV PATH=/
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/docket"]
