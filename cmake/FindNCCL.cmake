# Finds NCCL: the target giro::nccl and NCCL_FOUND.
include(${CMAKE_CURRENT_LIST_DIR}/GiroNvidia.cmake)
giro_find_nvidia(NCCL giro::nccl nccl.h nccl libnccl.so.2)
