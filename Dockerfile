# The program with its data, in Debian:
#   docker build -t subquad .
#   docker run --rm subquad verify --operator toeplitz_1d --n 1000
#   docker run --rm -v "$PWD:/data" subquad check /data/my_case
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY setup ./
RUN ./setup
COPY . .
RUN cmake --preset release -DSUBQUAD_CUDA=OFF -DSUBQUAD_TESTS=OFF \
    && cmake --build --preset release --target subquad \
    && cmake --install build --prefix /opt/subquad

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
       libfftw3-double3 libfftw3-single3 libfmt9 libbenchmark1debian \
       python3 python3-numpy python3-matplotlib python3-jsonschema \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home subquad
COPY --from=build /opt/subquad /opt/subquad
ENV PATH=/opt/subquad/bin:$PATH PYTHONPATH=/opt/subquad/share/subquad
USER subquad
WORKDIR /data
ENTRYPOINT ["subquad"]
