# The image of `make images`, for those who build with a daemon:
# docker build -f deploy/images/recommender.Dockerfile target/x86_64-unknown-linux-musl/dist
FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title=recommender \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION \
      org.opencontainers.image.licenses=Apache-2.0
COPY recommender /recommender
USER 65532:65532
ENTRYPOINT ["/recommender"]
